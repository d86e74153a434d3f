"""What the world sends: transports x bodies x environments, each cell a real run of a command.

Bytes come over a real socket, and rows go into a real PostgreSQL. What a cell must store is declared beside its bytes,
and never taken from the product.

- `bodies`: lists and reports as bytes, with the rows that they mean
- `transports`: how the bytes of an answer are framed, encoded, cut, delayed and refused
- `environments`: variables, roles, databases, proxies and certificates
- `cells`: the matrix, a run of a cell, and its judge
"""
