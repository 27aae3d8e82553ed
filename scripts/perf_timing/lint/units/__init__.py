"""Times and rates with their units, and where these contradict each other."""
