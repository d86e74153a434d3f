"""Deterministic simulation of loads, rotations and reports, with faults.

    python -m seller_platform_tests.simulation [--seed N] [--runs N] [--events N]

A run is a small world: a real PostgreSQL, the product's own code, and a model of the upstream. Actors take turns: they
load slices, plan refreshes, accept and revert loads, prune receipts, poll reports, rotate tokens and keys, discover
accounts, keep to a budget of requests, build marts, read, and walk over the pages of the service. The turn ends at
each HTTP request, each answer, each SQL statement, each failpoint and each sleep. The seed decides whose turn it is,
what fails, who is killed, and when the database restarts. A model judges the tables after each commit, and what
readers see in their transactions.

The same seed gives the same log. A run that fails is made smaller, and ends with the command that repeats it:

    python -m seller_platform_tests.simulation --seed 17 --keep 3,9,14 --log

`--keep` names the items of the plan that happen; without it all of them do. `--events` kills all processes after so
many events, and judges what they left; runs about wrong contents go on. `--log` prints the log. The exit code is 1 if
a seed failed; few seeds begin after it. Runs print how many of them reached each failpoint, verdict, rule
of holds and class of errors, and what none did; 10,000 runs or more fail if there is any such thing.

- `actors`: what actors do
- `clock`: the world's time
- `connections`: connections whose statements end the turn
- `facts`: judges what receipts say beside their rows
- `faults`: answers that are late, lost, cut, wrong or short
- `holds`: judges which days are held
- `marts`: a mart, and the check that it is current
- `model`: judges what is stored
- `plan`: what happens in a run
- `planning`: judges what a planner finds due
- `reach`: what runs can reach, and what they do not
- `reports`: the reports of the upstream, also on a socket
- `runs`: plays runs, and makes failing ones smaller
- `scheduler`: gives the turn to one actor at a time, and logs events
- `tables`: reads and empties the judged tables
- `threads`: threads and locks of the product, as actors
- `upstream`: the model of the upstream
- `walks`: a client of the service
- `world`: a run with its processes, its upstream, its faults and its judge
"""
