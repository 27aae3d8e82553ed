"""What code measures for: a figure, a search, a training, or the run of a program."""
