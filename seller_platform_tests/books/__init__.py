"""Tests of the books: closed months, adjusting entries, and the rows of a line."""
