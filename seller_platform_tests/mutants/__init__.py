"""Plants random mistakes in modules that hold promises, and counts those that a test notices.

    python -m seller_platform_tests.mutants [--each 200] [--seed 1] [--workers N] [MODULE...]

cosmic-ray makes the mutants: a comparison, a number, a condition, an operator, a loop, an exception or a decorator is
changed. Each mutant meets the tests that reach the changed function, the quickest first, until one fails. The exit code
is 1 if fewer than 92 % are killed, or if a survivor has no verdict in `verdicts.txt`.

- `modules`: the modules, and the tests of each
- `choice`: the mutants of a module
- `verdicts`: survivors that were judged before
- `play`: runs tests with a mutant, in processes forked from one that has imported the libraries; first without
- `recording`: the plugin of pytest that records which tests reach a function, and runs those
"""
