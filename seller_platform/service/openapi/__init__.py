"""Routes and the OpenAPI document made from them.

- `routes`: an endpoint: its path, its answer and its description
- `operations`: how one endpoint is described
- `document`: the whole document
"""
