"""Reports that the upstream writes: requested, polled until they are ready, and loaded.

- `capability`: what this folder contributes
- `selectors`: selectors, status words and formats of reports
- `downloads`: bodies of reports, stored in files until their end is certain
- `endpoints`: reports requested, followed and downloaded
- `jobs`: which reports were requested, and how far they are
- `loading`: requests, polls and loads reports
- `assets`: the asset, the job and the sensor of Dagster
- `commands`: `seller-platform report`
- `tables`: where jobs are stored
"""
