"""Long runs of the tests of faults; each prints promises and measured figures."""
