"""How the command line begins, what it shows in a terminal, and how it ends.

- `root`: the group of all commands, and how their errors end
- `foreseen`: errors of PostgreSQL and the file system as sentences
- `colours`: colours of states, errors and headings
- `groups`: groups whose commands are imported when they run
- `months`: months, as options and answers
- `layout`: sentences and tables that fit the width of the terminal
- `progress`: what is being done, how much of it, and for how long
"""
