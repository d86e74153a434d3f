"""The report endpoints and the worker that writes reports.

- `endpoints`: the routes
- `jobs`: report jobs as stored
- `writing`: writes the rows of one report
- `worker`: runs the jobs, and the cleanup
- `csv`: CSV text
"""
