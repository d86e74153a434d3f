"""The OAuth 2.0 server (RFC 6749).

- `authorize`: the authorization endpoint and the consent page
- `consent_choices`: accounts and scopes that a user chooses on the consent page
- `token_endpoint`: token, revocation and metadata endpoints
- `issued_tokens`: codes and tokens as stored
- `applications`: applications as stored: of the operator, of users, and described by a document
- `client_documents`: the documents in which clients describe themselves, and are not registered
- `registration_rules`: names and redirect URIs that may be registered
- `developers_page`: where users register applications, and replace their secrets
- `approvals_page`: where users end an application's access
- `openapi`: the requests and answers of these endpoints, and their description
"""
