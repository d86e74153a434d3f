"""OAuth 2.0 (RFC 6749): token requests and the redirect.

- `tokens`: exchanges codes and refresh tokens, signs requests, and reads the issuer from the metadata
- `callback`: receives the redirect on a loopback port
"""
