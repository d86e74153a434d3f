"""The commands about what is made from the rows.

- `marts`: builds marts
- `month`: closes months, and writes their journal entries for a program of accounting
"""
