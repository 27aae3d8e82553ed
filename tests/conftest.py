"""Settings of every test: the machine's load must not decide."""

from hypothesis import settings

settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
