"""Lists and marts, exported as Delta tables for other engines.

- `capability`: what this folder contributes
- `settings`: where exported tables lie
- `derived`: a table as what is derived from its dataset or mart
- `partitions`: exports partitions of a table
- `delta_tables`: opens, writes and prunes tables
- `table_files`: their files in a folder, synced
- `temporary_rows`: the rows between their reading and their writing
- `upkeep`: partitions that have other rows than the database, and files that may go
- `assets`: an asset of Dagster for each table
- `commands`: `seller-platform export`
"""
