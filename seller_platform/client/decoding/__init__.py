"""Answers decoded into rows, exactly as sent.

- `pages`: decodes one page of a list at once, if it has the declared form, or recognizes it as decoded before
- `envelopes`: cuts a body into its rows and the counts beside them, and finds names that stand twice
- `lenient`: decodes a page of another form row by row
- `values`: reads single values of columns
- `local_days`: computes the local days of timestamps
"""
