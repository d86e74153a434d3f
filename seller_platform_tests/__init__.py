"""The tests: a mirror of the package, `journeys` for whole paths, `figures` for measurements."""
