"""The API as seen over HTTP: requests that are retried, tokens, pages decoded into rows, lists read whole.

The only floor that sends HTTP requests. It knows the contract and nothing of where rows are kept.
"""
