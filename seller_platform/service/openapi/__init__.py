"""Routes and the OpenAPI document made from them.

- `schemas`: the types of answers that several endpoints have
- `operations`: how one endpoint is described
- `document`: the whole document
"""
