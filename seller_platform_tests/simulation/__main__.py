"""`python -m seller_platform_tests.simulation`: plays runs, and prints the command that repeats a failure."""

import argparse
import os
import resource
import sys
import time

from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Player, served


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m seller_platform_tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--keep", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--log", action="store_true")
    arguments = parser.parse_args()
    failed = events = 0
    with served() as server:
        player = Player(server, "worker_1")
        began = time.perf_counter()
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            outcome = player.play(Plan.of(seed, arguments.keep), with_log=arguments.log)
            events += outcome.events
            if arguments.log:
                print("\n".join(outcome.lines))
            if outcome.failure is not None:
                failed += 1
                print(f"{outcome.plan.command}: {outcome.failure}")
        own = resource.getrusage(resource.RUSAGE_SELF)
        print(f"{arguments.runs} runs, {events} events, {failed} failed, {time.perf_counter()-began:.1f} s, cpu {own.ru_utime+own.ru_stime:.1f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
