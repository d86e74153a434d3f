"""Endpoints that are not lists: accounts, cost periods, reports, status.

- `accounts`: the user and the accounts
- `cost_periods`: product costs, read and written
- `reports`: reports requested, followed and downloaded
- `report_rows`: rows of a downloaded report, from JSON or CSV
- `json_stream`: values of a JSON document that is read in pieces
- `status`: whether an upstream answers, and its clock
- `webhook`: messages posted to a webhook
"""
