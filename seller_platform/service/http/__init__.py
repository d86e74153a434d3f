"""HTTP: what every endpoint shares.

- `parameters`: query parameters, read strictly
- `bodies`: request bodies, read within bounds
- `responses`: answers and errors
- `middleware`: request ids, access log, envelopes of errors
- `compression`: gzip
"""
