"""Limits of one user's requests, and of all requests at once.

- `policy`: the numbers, and how several processes share them
- `turns`: requests of one kind at once, by turns of their users
- `rates`: limits the requests of a token and a user in a minute
- `admission`: admits or refuses the requests of each route
"""
