"""Lists read whole, by windows, filters and pages.

- `slice_reader`: reads one slice of a dataset
- `split_lists`: reads a list filter value by filter value
- `windows`: splits a window into requests that fit a page
- `pagination`: walks the pages of one list and judges whether it moved
- `prefetch`: fetches pages ahead in threads
- `row_sink`: receives the rows that were read
"""
