"""Loads of slices in processes of their own, beside a process that runs Dagster.

- `tasks`: a slice to load, and who loads it in this process
- `messages`: what the processes send to each other
- `program`: the program of a loading process
- `pool`: starts loading processes, gives them tasks, and ends them
- `expectation`: whether a load is large enough for them
"""
