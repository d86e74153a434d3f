"""Measures the structure of the code, for `test_structure`.

- `source`: the modules of both packages, parsed
- `budgets`: lines that each floor may have
- `errors`: the classes of errors
"""
