"""`demo`, `dev` and `sandbox`: commands on generated sellers.

- `demo`: the main job, once
- `dev`: everything until Ctrl-C
- `preload`: the last month, loaded before the UI of `dev` opens
- `refreshes`: with `dev --live`, loads each day of the sandbox
- `local_stack`: the sandbox service and the environment that points at it
- `serving`: the service over the sandbox
- `command`: the group `sandbox`
- `fill`: fills a service's database
- `live`: advances it day by day
"""
