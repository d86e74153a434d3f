"""The OAuth 2.0 side of the client (RFC 6749).

- `tokens`: exchanges codes and refresh tokens, and signs requests
- `callback`: receives the redirect on a loopback port
"""
