"""`python -m seller_platform_tests.mutants`: prints how many mutants are killed, and who survives without a verdict."""

import json
import os
import subprocess
import sys
from collections.abc import Collection
from multiprocessing.pool import ThreadPool

import click

from seller_platform.counts import count_of
from seller_platform_tests.mutants.modules import TESTS_OF
from seller_platform_tests.mutants.play import Played
from seller_platform_tests.mutants.verdicts import verdicts

_LEAST_PERCENT = 92


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--each", default=200, show_default=True, help="How many mutants of each module are played at most.")
@click.option("--seed", default=1, show_default=True, help="Decides which mutants are played.")
@click.option("--workers", default=os.cpu_count() or 1, show_default=True, help="How many modules at a time.")
def main(*, modules: tuple[str, ...], each: int, seed: int, workers: int) -> None:
    """Plant random mistakes in modules, and count those that a test notices."""
    played: list[Played] = []
    names, reasons = modules or tuple(TESTS_OF), verdicts()
    with ThreadPool(workers) as pool:
        for name, of_module in pool.imap_unordered(lambda name: (name, _play(name, each, seed, reasons)), names):
            print(_line(name, of_module), flush=True)
            played += of_module
    unjudged = sum(not one.is_killed and one.change not in reasons for one in played)
    seconds = sum(one.seconds for one in played) / len(played)
    print(f"{_line('all', played)}; {unjudged} without a verdict; {seconds:.1f} s of CPU a mutant")
    sys.exit(1 if unjudged or _percent(played) < _LEAST_PERCENT else 0)


def _play(module: str, each: int, seed: int, reasons: Collection[str]) -> list[Played]:
    """Play the mutants of a module in a process of its own, and print each survivor without a verdict at once."""
    command = [sys.executable, "-m", "seller_platform_tests.mutants.play", module, str(each), str(seed)]
    played: list[Played] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            one = Played(**json.loads(line))
            played.append(one)
            if not one.is_killed and one.change not in reasons:
                error = f"; pytest ended with {one.code}" if one.code else ""
                print(f"\n{one.change}\n(reached by {count_of(one.tests, 'test')}{error})\n", flush=True)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return played


def _line(name: str, played: list[Played]) -> str:
    return f"{name:<40} {sum(one.is_killed for one in played):>5} of {len(played):>5} killed, {_percent(played):5.1f} %"


def _percent(played: list[Played]) -> float:
    return 100 * sum(one.is_killed for one in played) / len(played)


if __name__ == "__main__":
    main()
