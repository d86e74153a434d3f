"""Mistakes planted in the product, one line each, and the seed at which the simulation finds each of them.

`mutations.txt` lists them; a NAME is a part of a name or of a file. The simulation runs with a copy of the product that
has the mistake. A mistake that no seed finds shows that an actor, a fault or a rule of the judge is missing.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import click

import seller_platform
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import completed

_PACKAGE = Path(seller_platform.__file__).parent


class Mutation(NamedTuple):
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

    def applied(self) -> str:
        """Return the text of the module with the mistake."""
        text = (_PACKAGE / self.file).read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {self.old!r} {text.count(self.old)} times, not once")
        return text.replace(self.old, self.new)


def mutations() -> list[Mutation]:
    """Return the mutations of `mutations.txt`: a name, a file, and the old and the new text."""
    blocks = (block.splitlines() for block in Path(__file__).with_suffix(".txt").read_text().strip("\n").split("\n\n"))
    return [Mutation(name, file, old.removeprefix("-"), new.removeprefix("+")) for name, file, old, new in blocks]


def search(mutation: Mutation, seeds: int) -> str | None:
    """Play seeds with the mistake, and return which one fails and how."""
    with temporary_folder() as folder:
        shutil.copytree(_PACKAGE, folder / _PACKAGE.name)  # with its bytecode
        (folder / _PACKAGE.name / mutation.file).write_text(mutation.applied())
        command = [sys.executable, "-m", "seller_platform_tests.simulation", "--no-shrink", f"--runs={seeds}"]
        ended = completed(command, cwd=folder)  # whose packages come first
    failed = re.search(r"^seed \d+ failed .*", ended.stdout, re.MULTILINE)
    if failed is None and ended.returncode:
        raise RuntimeError(ended.stderr)
    return failed and failed[0]


@click.command(help=__doc__)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--seeds", default=2_000, show_default=True, help="How many seeds are played for a mistake at most.")
def main(names: tuple[str, ...], seeds: int) -> None:
    chosen = [each for each in mutations() if not names or any(name in f"{each.name} {each.file}" for name in names)]
    missed = 0
    for each in chosen:
        found = search(each, seeds)
        print(f"{each.name}: {found or 'not found'}", flush=True)
        missed += found is None
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
