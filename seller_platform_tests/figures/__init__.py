"""Figures about speed; `python -m seller_platform_tests.figures NAME` prints one.

Each module with a function `measure` is a figure; its keyword arguments are the options of the command. The other
modules are what figures share:

- `results`: medians of samples, as a table
- `measuring`: the CPU of processes and of PostgreSQL, and memory
- `free_service`: an upstream that is always faster than its reader
- `pipelines`: the other tools that `peers` installs and runs
"""
