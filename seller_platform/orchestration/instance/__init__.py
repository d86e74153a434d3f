"""The Dagster instance: its home folder, its retention, and the processes of its runs.

- `home`: its folder and configuration
- `run_launcher`: forks the processes of other runs, and notices that one is gone together with its code server
- `retention`: deletes its old events, runs and logs
"""
