"""Figures about speed and about behaviour under faults; `python -m seller_platform_tests.figures NAME` prints one.

Each module with a function `measure` is a figure; its keyword arguments are the options of the command. The other
modules are what figures share:

- `results`: figures beside promises, and medians of samples, as tables
- `measuring`: the CPU of processes and of PostgreSQL, and memory
- `passing_days`: a deployment whose clock passes a day every few seconds
- `free_service`: an upstream that is always faster than its reader
- `pipelines`: the other tools that `peers` installs and runs
"""
