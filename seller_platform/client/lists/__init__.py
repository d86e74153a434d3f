"""Lists read whole, by windows, filters and pages.

- `slice_reader`: reads one slice of a dataset
- `split_lists`: reads a list once for each value of a filter
- `reader`: reads lists in one page, in smaller windows or page by page, until they end
- `prefetch`: fetches pages ahead in threads
- `row_defects`: counts rows without their whole key, or with replaced text
- `placed_rows`: completes the day of rows that are asked for day by day
- `row_sink`: receives the rows that were read
"""
