"""The tools of `answers`, served by the Model Context Protocol; needs the extra `mcp`.

- `protocol`: the tools in the protocol's form, and the results of their calls
- `endpoint`: the endpoint `/mcp`, and the metadata by which clients find its OAuth server
"""
