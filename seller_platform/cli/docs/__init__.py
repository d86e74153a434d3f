"""`seller-platform docs`: the pages of documentation, read in the terminal.

- `command`: the command
- `schemas`: the JSON Schema of what a command prints with `--json`
- `rendering`: a page rendered for the width of a terminal
"""
