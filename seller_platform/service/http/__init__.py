"""Parameters, bodies, answers and middleware of all endpoints.

- `parameters`: query parameters, read strictly
- `bodies`: request bodies, read within bounds
- `responses`: answers and errors
- `middleware`: request ids, access log, answers to unexpected errors
- `compression`: gzip
"""
