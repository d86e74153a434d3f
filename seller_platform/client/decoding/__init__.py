"""Answers decoded into rows, exactly as sent.

- `pages`: decodes one page of a list
- `strict`: decodes a page that has the declared form, at once
- `lenient`: decodes row by row where a page does not have it
- `values`: reads single values of columns
- `local_days`: puts moments on days of an account's time zone
"""
