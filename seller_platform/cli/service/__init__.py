"""`seller-platform service`: runs the REST API, and manages what it needs beside the rows.

- `command`: the group of these commands
- `processes`: the commands of processes
- `groups`: the commands of groups of accounts
- `applications`: the commands of OAuth applications
- `users`: the commands of users
- `events`: the command that lists security events
- `doctor`: the command that checks a running service
- `csv_loads`: the commands that load exchange rates and products
- `options`: the option of the database, and how results are printed
"""
