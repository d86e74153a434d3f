"""The report endpoints and the worker that writes reports.

- `endpoints`: the routes
- `openapi`: the description of these endpoints
- `jobs`: report jobs as stored
- `writing`: writes a report's rows
- `worker`: runs the jobs
- `csv`: CSV text
- `cleanup`: deletes expired grants, sessions, login attempts and reports
"""
