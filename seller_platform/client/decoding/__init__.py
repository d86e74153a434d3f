"""Answers decoded into rows, exactly as sent.

- `pages`: decodes one page of a list
- `envelopes`: cuts a body into its rows and the counts beside them, and finds names that stand twice
- `known_pages`: recognizes pages that were decoded before
- `strict`: decodes a page that has the declared form, at once
- `lenient`: decodes row by row where a page has another form
- `values`: reads single values of columns
- `local_days`: computes the local days of timestamps
"""
