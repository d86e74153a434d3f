"""The cost period endpoints.

- `endpoints`: the routes
- `bodies`: cost periods read from a request
- `store`: cost periods as stored
- `openapi`: the description of these endpoints
"""
