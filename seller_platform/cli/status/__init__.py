"""`seller-platform status`: what is stored, and what needs attention.

- `command`: the command
"""
