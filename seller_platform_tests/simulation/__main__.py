"""`python -m seller_platform_tests.simulation`: plays runs, and prints the command that repeats a failure."""

import os
import resource
import sys
from collections import Counter

import click

from seller_platform.counts import count_of
from seller_platform_tests.figures.measuring import server_seconds
from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.reach import problems_of, reachable
from seller_platform_tests.simulation.runs import Player, play_seeds, served, shrunk

_LAST_LINES = 25
_BETWEEN_REPORTS = 100
_LONG = 10_000
"""So many runs reach everything that runs can reach."""


@click.command(help=__doc__)
@click.option("--seed", default=1, show_default=True, help="The first seed.")
@click.option("--runs", default=1, show_default=True, help="How many seeds are played, from --seed on.")
@click.option(
    "--events", type=int, help="After so many events all processes are killed, unless the run is about wrong contents."
)
@click.option("--workers", default=2 * (os.cpu_count() or 1), show_default=True, help="How many processes play them.")
@click.option("--keep", help="Only these items of the plan happen, such as 3,9,14; of one seed.")
@click.option("--log", "with_log", is_flag=True, help="Print the log of one seed.")
@click.option("--shrink/--no-shrink", default=True, help="Make a failing run smaller.")
def main(
    *, seed: int, runs: int, events: int | None, workers: int, keep: str | None, with_log: bool, shrink: bool
) -> None:
    expected = reachable()
    with served() as server:
        if runs == 1:
            chosen = None if keep is None else [int(number) for number in keep.split(",")]
            outcomes = [Player(server, "single").play(Plan.of(seed, chosen, events), with_log=with_log)]
        else:
            outcomes = []
            for outcome in play_seeds(server, range(seed, seed + runs), min(workers, runs), events=events):
                outcomes.append(outcome)
                if len(outcomes) % _BETWEEN_REPORTS == 0:
                    print(f"{count_of(len(outcomes), 'seed')} played", file=sys.stderr, flush=True)
        if with_log:
            print("\n".join(outcomes[0].lines))
        counts = Counter(name for each in outcomes for name in each.reached)
        for name, count in sorted(counts.items()):
            print(f"{count:>7} {name}")
        failed = min((each for each in outcomes if each.failure), key=lambda each: each.plan.seed, default=None)
        if failed is None:
            played = sum(each.events for each in outcomes)
            usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            own = sum(usage.ru_utime + usage.ru_stime for usage in usages)
            seconds = f"{own:.1f} s of CPU, and {server_seconds(server):.1f} s of PostgreSQL"
            problems = problems_of(expected, counts)
            for problem in problems:
                print(problem)
            print(f"{count_of(len(outcomes), 'seed')} passed; {played} events; {seconds}")
            sys.exit(1 if problems and len(outcomes) >= _LONG else 0)
        print(f"seed {failed.plan.seed} failed after {failed.events} events: {failed.failure}", flush=True)
        if shrink and keep is None:
            player = Player(server, "shrinking")
            failed = shrunk(failed, player.play)
        print("\n".join([*(f"  {item}" for item in failed.plan.kept), *failed.lines[-_LAST_LINES:]]))
        print(failed.details or failed.failure)
        print(f"Repeat it with: {failed.plan.command} --log")
    sys.exit(1)


if __name__ == "__main__":
    main()
