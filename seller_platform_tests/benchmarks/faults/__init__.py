"""The long forms of the tests against faults; each prints a table of promises and figures."""
