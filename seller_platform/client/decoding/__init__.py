"""Answers decoded into rows, exactly as sent.

- `pages`: decodes one page of a list, or recognizes it as decoded before
- `envelopes`: cuts a body into its rows and the counts beside them, and finds names that stand twice
- `strict`: decodes a page that has the declared form, at once
- `lenient`: decodes row by row where a page has another form
- `values`: reads single values of columns
- `local_days`: computes the local days of timestamps
"""
