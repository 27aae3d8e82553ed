"""What code does, whoever measures it: functions, names, calls, branches, the order of steps."""
