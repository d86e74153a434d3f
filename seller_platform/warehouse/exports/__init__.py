"""Lists and marts, exported as Delta tables for other engines.

- `partitions`: exports partitions of a table
- `outdated`: partitions that have other rows than the database
- `tables`: opens, writes and prunes Delta tables
- `table_files`: their files in a folder, synced
- `temporary_rows`: the rows between their reading and their writing
"""
