"""`seller-platform docs`: the pages of documentation, read in the terminal.

- `command`: the command
- `rendering`: a page rendered for the width of a terminal
"""
