"""Programs of those who develop and release the project; neither the product nor its image has them.

- `lock`: the lock files
- `release`: the files of a release
- `site`: the documentation site
- `regenerate`: all generated files
- `documentation`: the generated parts of the README and the pages
- `api_reference`: those about the API over HTTP and in Python
- `mutants`: random mistakes, which tests must notice
"""
