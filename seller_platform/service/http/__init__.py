"""Parameters, bodies, answers and middleware of all endpoints.

- `parameters`: query parameters, read strictly
- `bodies`: request bodies, read within bounds
- `responses`: answers, documents that caches keep, and errors
- `addresses`: the network of a client, and hosts of URLs
- `public_url`: the URL of the service, and the refusal of other hosts
- `idempotency`: answers that are given again to a repeated request
- `middleware`: request ids, access log, answers to unexpected errors
"""
