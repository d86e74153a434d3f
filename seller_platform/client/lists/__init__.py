"""Lists read whole, by windows, filters and pages.

- `slice_reader`: reads a list, or one slice of a dataset, until no row can have been missed
- `reader`: reads lists in one page, in smaller windows or page by page, until they end
- `row_defects`: counts rows without their whole key, or with replaced text
- `row_sink`: receives the rows that were read
"""
