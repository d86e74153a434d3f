"""`demo`, `dev` and `sandbox`: commands on generated sellers.

- `demo`: the main job, once
- `dev`: everything until Ctrl-C
- `loading`: loads lists by runs of Dagster in the process of `demo` or `dev`
- `refreshes`: with `dev --live`, loads each day of the sandbox
- `local_stack`: the sandbox service and the environment that points at it
- `serving`: the service over the sandbox
- `command`: the group `sandbox`
- `fill`: fills a service's database
- `live`: advances it day by day
"""
