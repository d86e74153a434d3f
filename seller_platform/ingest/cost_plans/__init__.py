"""Product costs written back as a reviewed plan.

- `planning`: compares a sheet with the upstream, and applies the plan
- `sheets`: reads and writes cost sheets
"""
