"""Plans of costs: product costs written back to the API, reviewed before and proven afterwards.

- `capability`: what this folder contributes
- `sheets`: reads target costs from files, tables and lines
- `endpoints`: the costs of a product upstream
- `planning`: compares a sheet with the upstream
- `plans`: plans and how far they were applied, and the file of a plan
- `applying`: writes a plan, and reads it back until it holds
- `commands`: `seller-platform costs`
- `jobs`: the job of Dagster
- `tables`: where plans are stored
"""
