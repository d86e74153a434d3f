"""Measures the structure of the code, for `test_structure`.

- `source`: the modules of both packages, parsed
- `budgets`: lines that each floor may have
- `imports`: imports between modules, and cycles among them
- `names`: names of classes, modules, folders and tests, and dotted paths in files
- `code`: calls that write files, private functions that are called once, plurals, private names of Dagster
- `errors`: the classes of errors
- `page_calls`: the functions of the product that read one page of orders
"""
