"""The tests: a mirror of the package, `journeys` for whole paths, `benchmarks` for figures."""
