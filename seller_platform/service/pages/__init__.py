"""HTML pages: login, password, sessions and documentation.

- `rendering`: templates, headers and static files
- `docs`: the documentation of the API
- `login`: login and log-out, and the limits of failed logins
- `password`: changes a password, and sets one by a link of the operator
- `sessions`: browser sessions
- `signed_in`: pages that need a login
"""
