"""Jobs for loads that a person asks for in the Launchpad.

- `loading`: a backfill of months, and a refresh now
- `holds`: held readings that are accepted
- `choices`: the config fields that they share
"""
