"""Report jobs and cost plans, which outlive a process.

- `report_jobs`: reports requested from the upstream
"""
