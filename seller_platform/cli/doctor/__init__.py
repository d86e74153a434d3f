"""`seller-platform doctor`: checks of this machine, the database and the connections.

- `command`: the command
- `findings`: the findings and how they are printed
- `local_checks`: checks of this machine
- `connection_checks`: checks of connections
"""
