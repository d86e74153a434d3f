"""Mistakes planted in the product, one line each, and the seed at which the simulation finds each of them.

`mutations.txt` lists them; a NAME is a part of a name or of a file. The product is copied to a temporary folder and
changed there. The simulation runs in a process of its own that imports the copy. A mistake that no seed finds shows
that an actor, a fault or a rule of the judge is missing.
"""

import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import click

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

_PACKAGE = Path(seller_platform.__file__).parent
_LIBRARIES = ["dagster", "greenlet", "httpx", "msgspec", "psycopg", "pydantic_settings", "sqlalchemy"]


@dataclass(frozen=True)
class Mutation:
    """A mistake in one line of the product.

    Attributes:
        name: A sentence that says what the product does wrongly.
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
        """Return the text of the module with the mistake."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


def _mutations() -> Iterator[Mutation]:
    """Yield the mutations of `mutations.txt`: a name, a file, and the old and the new text."""
    for block in Path(__file__).with_suffix(".txt").read_text().split("\n\n"):
        name, file, old, new = block.rstrip("\n").splitlines()
        yield Mutation(name, file, old.removeprefix("-"), new.removeprefix("+"))


MUTATIONS = tuple(_mutations())


def search(mutation: Mutation, server: EmbeddedServer, seeds: Sequence[int]) -> _Result:
    """Play seeds with the mistake until one fails; return it, its events until then, and what was wrong."""
    with TemporaryDirectory(prefix="mutation-") as folder:
        shutil.copytree(_PACKAGE, Path(folder) / _PACKAGE.name)  # with its bytecode
        changed = Path(folder) / _PACKAGE.name / mutation.file
        changed.write_text(mutation.applied(changed.read_text()))
        return _played(folder, server, seeds)


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


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--seeds", default=2_000, show_default=True, help="How many seeds are played for a mistake at most.")
def main(names: tuple[str, ...], seeds: int) -> None:
    missed = 0
    print(f"{'mutation':<86} {'seed':>9} {'events':>6} {'seconds':>7}", flush=True)
    with served() as server:
        for each in MUTATIONS:
            if not names or any(name in each.name or name in each.file for name in names):
                began = time.monotonic()
                seed, events, judgement = search(each, server, range(1, seeds + 1))
                facts = f"{seed or 'not found':>9} {events:>6} {time.monotonic() - began:>7.1f}"
                print(f"{each.name:<86} {facts}  {judgement}".rstrip(), flush=True)
                missed += seed is None
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
