"""`seller-platform service`: runs the REST API, and manages what it needs beside the rows.

- `command`: the commands of processes, users and groups
- `applications`: the commands of OAuth applications
- `doctor`: the command that checks a running service
- `csv_loads`: the commands that load exchange rates and products
- `options`: the option of the database, and how results are printed
"""
