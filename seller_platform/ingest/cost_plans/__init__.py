"""Product costs written back as a reviewed plan.

- `planning`: compares a sheet with the upstream
- `applying`: writes a plan, and reads it back until it holds
- `files`: writes and reads a plan's JSON file
"""
