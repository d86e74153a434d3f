"""`seller-platform docs`: the pages of documentation, read in the terminal.

- `command`: the command
- `pages`: the pages that are shipped with the package
- `rendering`: a page rendered for the width of a terminal
"""
