"""The endpoints of cost periods: read, write and delete.

- `endpoints`: the routes
- `bodies`: cost periods read from a request
- `store`: cost periods as stored
"""
