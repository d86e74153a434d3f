"""Report jobs and cost plans, which outlive a process.

- `report_jobs`: reports requested from the upstream
- `cost_plans`: cost plans and how far they were applied
- `cost_sheets`: reads target costs from files, tables and lines
"""
