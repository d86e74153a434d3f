"""The OAuth 2.0 server (RFC 6749).

- `authorize`: the authorization endpoint and the consent page
- `token_endpoint`: token, revocation and metadata endpoints
- `issued_tokens`: codes and tokens as stored
- `applications`: registered applications
- `developers_page`: where users register applications
- `approvals_page`: where users end an application's access
- `temporary_access`: a temporary user and access token for `verify`
- `openapi`: the description of these endpoints
"""
