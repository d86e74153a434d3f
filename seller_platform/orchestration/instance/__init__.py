"""The Dagster instance: its home folder, its health, its retention, and what its storage adds to Dagster's.

- `home`: its folder and configuration
- `health`: its state for `doctor`
- `command_runs`: runs that a command executes in its own process
- `run_launcher`: notices that the process of a run is gone, together with its code server
- `run_workers`: forks the processes of other runs, in place of new interpreters
- `retention`: deletes its old events, runs and logs
"""
