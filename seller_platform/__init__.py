"""A marketplace seller's API, landed in PostgreSQL, checked, and served again.

- `cli`: the `seller-platform` command
- `orchestration`: Dagster's definitions
- `service`: the API served over HTTP from the warehouse
- `sandbox`: invented sellers
- `ingest`: loads from the API into the warehouse
- `client`: requests to the API
- `warehouse`: PostgreSQL, its tables and their SQL
- `contract`: what the API promises
- `settings`: settings read from the environment
- `logs`: logs as JSON
- `traces`: OpenTelemetry spans
- `clocks`: the time, and moments that are past
- `files`: files replaced whole
- `failpoints`: where tests end a process
- `errors`: every error raised on purpose
"""

__version__ = "0.1.0"
