"""Routes and the OpenAPI document made from them.

- `operations`: how one endpoint is described, and the types that several have
- `document`: the whole document
"""
