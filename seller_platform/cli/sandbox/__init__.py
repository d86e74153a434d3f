"""`demo`, `dev` and `sandbox load`: commands on generated sellers.

- `demo`: the main job, once
- `dev`: everything until Ctrl-C
- `local_stack`: the sandbox service and the environment that points at it
- `fill`: fills a service's database
"""
