"""Mistakes planted in the product, one line each, and the seed at which the simulation finds each of them.

    python -m seller_platform_tests.simulation.mutations [--seeds 2000] [NAME...]

`mutations.txt` lists them. The product is copied to a temporary folder and changed there. The simulation runs in a
process of its own that imports the copy. A mistake that no seed finds shows that an actor, a fault or a rule of the
judge is missing.
"""

import argparse
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import seller_platform
from seller_platform.warehouse.migrations.upgrade import problem_sources
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform.warehouse.schema.functions import create_functions
from seller_platform.warehouse.schema.problems import create_problems
from seller_platform.warehouse.schema.slices import keep_slices
from seller_platform_tests.simulation.plan import Plan
from seller_platform_tests.simulation.runs import Player, served

_Result = tuple[int | None, int, str]

SEEDS = 2_000
_PACKAGE = Path(seller_platform.__file__).parent
_PROJECT = _PACKAGE.parent
_LIBRARIES = ["dagster", "greenlet", "httpx", "msgspec", "psycopg", "pydantic_settings", "sqlalchemy"]


@dataclass(frozen=True)
class Mutation:
    """A mistake in one line of the product.

    Attributes:
        name: A sentence that says what the product does wrongly.
        file: The module, below the package.
        old: A part of one line that occurs once in the module.
        new: What replaces it.
    """

    name: str
    file: str
    old: str
    new: str

    @property
    def path(self) -> Path:
        return _PACKAGE / self.file

    def applied(self, text: str) -> str:
        """Return the text of the module with the mistake.

        Raises:
            ValueError: The old text does not occur exactly once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Finding:
    """The result of the simulation with a mistake.

    Attributes:
        seed: The first seed that failed; None where none did.
        events: The events of that seed until it failed.
        judgement: What was wrong.
    """

    mutation: Mutation
    seed: int | None
    events: int
    judgement: str
    seconds: float

    def __str__(self) -> str:
        seed = "not found" if self.seed is None else str(self.seed)
        return f"{self.mutation.name:<86} {seed:>9} {self.events:>6} {self.seconds:>7.1f}  {self.judgement}".rstrip()


def _mutations() -> Iterator[Mutation]:
    """Yield the mutations of `mutations.txt`: a name, a file, and the old and the new text."""
    for block in Path(__file__).with_suffix(".txt").read_text().split("\n\n"):
        name, file, old, new = block.rstrip("\n").splitlines()
        yield Mutation(name, file, old.removeprefix("-"), new.removeprefix("+"))


MUTATIONS = tuple(_mutations())


def search(mutation: Mutation, server: EmbeddedServer, *, seeds: Sequence[int]) -> Finding:
    """Play seeds with the mistake until one fails."""
    began = time.monotonic()
    with TemporaryDirectory(prefix="mutation-") as folder:
        shutil.copytree(_PACKAGE, Path(folder) / _PACKAGE.name)  # with its bytecode
        changed = Path(folder) / _PACKAGE.name / mutation.file
        changed.write_text(mutation.applied(changed.read_text()))
        seed, events, judgement = _played(folder, server, seeds)
    return Finding(mutation, seed, events, judgement, time.monotonic() - began)


def _played(folder: str, server: EmbeddedServer, seeds: Sequence[int]) -> _Result:
    """Play seeds in a process that imports the product from a folder.

    It is forked from one that has imported the libraries, and none of the product.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LIBRARIES)
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=play, args=(server.folder, seeds, there))
    sys.path.insert(0, folder)  # a new process has the path of this one
    try:
        process.start()
    finally:
        sys.path.remove(folder)
    there.close()
    with here:
        try:
            return cast(_Result, here.recv())
        except EOFError:
            raise RuntimeError("the process that plays seeds ended without a result") from None
        finally:
            process.join()


def play(folder: Path, seeds: Sequence[int], results: Connection) -> None:
    """Play seeds until one fails, and send that seed, its events, and what was wrong."""
    server, name = EmbeddedServer(folder), f"mutation_{os.getpid()}"
    player = Player(server, name)
    # Its database is a copy of one that the product without the mistake has made.
    with Database(server.database(name)) as database, database.begin() as connection:
        create_functions(connection)
        keep_slices(connection)
        create_problems(connection, problem_sources())
    for seed in seeds:
        outcome = player.play(Plan.of(seed))
        if outcome.failure is not None:
            results.send((seed, outcome.events, outcome.failure.strip().splitlines()[-1]))
            return
    results.send((None, 0, ""))


def chosen(names: Sequence[str]) -> Iterator[Mutation]:
    """Yield the mutations whose name or file contains one of the texts; without texts, all of them."""
    for mutation in MUTATIONS:
        if not names or any(name in mutation.name or name in mutation.file for name in names):
            yield mutation


def show(findings: Iterable[Finding]) -> bool:
    """Print a table of findings, line by line, and return whether every mutation was found."""
    print(f"{'mutation':<86} {'seed':>9} {'events':>6} {'seconds':>7}", flush=True)
    missed = 0
    for finding in findings:
        print(finding, flush=True)
        missed += finding.seed is None
    return not missed


def main() -> int:
    """Search the mutations that are named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m seller_platform_tests.simulation.mutations")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many seeds are played for each mutation at most")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the name or of the file of mutations")
    given = parser.parse_args()
    with served() as server:
        findings = (search(each, server, seeds=range(1, given.seeds + 1)) for each in chosen(given.names))
        return 0 if show(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
