"""The client of the API: the only floor that sends HTTP requests.

It knows the contract, and nothing of where rows are kept.

- `http`: requests, retries and checks of answers
- `oauth`: tokens and the redirect of an authorization
- `decoding`: answers decoded into rows
- `lists`: lists read whole
- `endpoints`: endpoints that are not lists of a dataset
"""
