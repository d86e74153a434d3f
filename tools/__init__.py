"""Programs of those who develop and release the project; neither the product nor its image has them.

- `lock`: the lock files
- `release`: the files of a release
- `site`: the documentation site
- `screenshots`: the pictures of the pages
- `mutants`: random mistakes, which tests must notice
- `sql_mutants`: those of SQL text
"""
