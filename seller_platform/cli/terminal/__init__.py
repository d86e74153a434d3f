"""How the command line begins and ends.

- `root`: the group of all commands, and how their errors end
- `endings`: the sentences for commands that a signal ends
- `foreseen`: errors of PostgreSQL and the file system as sentences
"""
