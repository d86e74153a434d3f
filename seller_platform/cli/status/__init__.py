"""`seller-platform status`: what is stored, and what needs attention.

- `command`: the command
- `screen`: what the screen shows, and its lines: what is stored, and what needs attention with the command for it
"""
