"""What `peers` runs in environments of their own, and how it compares what was stored.

The pipelines are scripts, because their environments have the tool but not the project. Each gets the path of a JSON
document (`environments.Job`) as its argument.

- `environments`: the pinned versions, installed by uv, and the job of a pipeline
- `parity`: the stored rows beside those of the upstream
- `dlt_pipeline`: dlt, with Arrow tables, Parquet and ADBC
- `singer_tap`: a tap of the Singer SDK; `target-postgres` reads its output
- `airbyte_pipeline`: PyAirbyte with the manifest `airbyte_manifest.yaml` and a PostgresCache
"""
