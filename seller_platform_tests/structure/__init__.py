"""Measures the structure of the code, for `test_structure`.

- `source`: the modules of both packages, parsed
- `budgets`: lines that each floor may have
- `errors`: the classes of errors
- `page_calls`: the functions of the product that read one page of orders
"""
