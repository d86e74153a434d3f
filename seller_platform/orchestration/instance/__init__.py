"""The Dagster instance: its home folder, its health, its retention, and what its storage adds to Dagster's.

- `home`: its folder and configuration
- `health`: its state for `doctor`
- `run_launcher`: forks the processes of other runs, and notices that one is gone together with its code server
- `retention`: deletes its old events, runs and logs
"""
