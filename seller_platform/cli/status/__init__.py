"""`seller-platform status`: what is stored, and what needs attention.

- `command`: the command
- `overview`: what the screen shows, read from the warehouse
- `screen`: the lines of the screen: what is stored, and what needs attention with the command for it
"""
