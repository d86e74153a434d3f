"""Dagster: assets, checks, partitions, schedules, sensors and storage.

A run is requested by a schedule or a sensor, or a person launches it. Schedules ask the planner of `ingest/loads` which
slices are due, and request runs over ranges of their partitions (`automation/runs`); a sensor does so for the job
`refresh_now`. Runs wait in the queue, whose limits are in dagster.yaml. For a backfill that is launched in the UI,
Dagster itself makes the runs (`partitions.backfill_policy_of`), and the budget of requests counts when they load. In
each run the dataset's asset makes slices of its partitions, has `load_each` of `ingest/loads` load them, and reports
events and checks. The sensor of `automation/following` requests the marts and exports that follow.

- `definitions`: everything Dagster loads
- `component`: the component that mounts them in other projects
- `assets`: assets and their checks
- `automation`: schedules and planned runs
- `jobs`: jobs for loads that a person asks for
- `mounting`: what a component tells those who contribute to it
- `instance`: the Dagster instance
- `resources`: the warehouse and the API
- `failures`: failures of a step and its partitions, without a stack trace
- `account_names`: how an account is named beside its key
- `placement`: names of definitions in a project, and the accounts that they read
- `partitions`: accounts, accounts by month, and ranges of them
- `tags`: names of run tags and metadata, and which runs are under way
- `dagster_internals`: names that Dagster does not export
- `storage`: Dagster's storage on PostgreSQL
- `celery_runs`: runs on several machines
- `downstream`: asset specs and the IO manager for other code locations
"""
