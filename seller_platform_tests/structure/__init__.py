"""Measures the structure of the code, for `test_structure`.

- `source`: the modules of both packages, parsed
- `budgets`: lines that each floor may have
- `imports`: imports between modules, and cycles among them
- `functions`: private functions that are called once
- `dagster_names`: private names of Dagster in the product
- `names`: names of classes, modules, folders and tests, and dotted paths in files
- `writers`: calls that write files without the module `files`
- `page_calls`: the functions of the product that read one page of orders
"""
