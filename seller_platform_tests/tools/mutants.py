"""Plants random mistakes in modules that hold promises, and counts those that a test notices.

    python -m seller_platform_tests.tools.mutants [--sql] [--each 40] [--seed 1] [--timeout 120] [MODULE...]

cosmic-ray makes the mutants in a copy of the project, and runs the tests of the module with each. Those of SQL text are
made by `sql_mutants`. The exit code is 1 if fewer than 92 % are killed, of SQL 90 %. A survivor whose reason is in
`mutants.txt` counts as killed.
"""

import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import WorkerOutcome, WorkResult

from seller_platform_tests.support.folders import temporary_folder

_TOP = Path(__file__).parents[2]
_LEAST_PERCENT = {False: 92, True: 90}
# By this, a process that has the folder in its path finds the operators.
_METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: mutants\nVersion: 1\n",
    "entry_points.txt": "[cosmic_ray.operator_providers]\nsql = seller_platform_tests.tools.sql_mutants:Provider\n",
}
# Annotations such as `str | None`, signatures with a bare `*`, and comparisons of enumerations that mean the same.
_EXCLUDED = [
    "core/ReplaceBinaryOperator_(BitOr_.*|Mul_Div)",
    "core/ReplaceComparisonOperator_(Is_Eq|IsNot_NotEq|Eq_Is|NotEq_IsNot)",
]

TESTS_OF: Mapping[str, Sequence[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
"""By the name of a module below `seller_platform`, paths below `seller_platform_tests`."""


def verdicts() -> Mapping[str, str]:
    """Return why no test has to notice a mistake, by the changed lines below the name of their module."""
    blocks = (block.strip().rpartition("\n") for block in Path(__file__).with_suffix(".txt").read_text().split("\n\n"))
    return {change: reason for change, _, reason in blocks if change}


@click.command()
@click.argument("modules", nargs=-1, metavar="[MODULE]...")
@click.option("--sql", is_flag=True, help="Plant mistakes in SQL text alone.")
@click.option("--each", default=40, show_default=True, help="How many mutants of each module are played at most.")
@click.option("--seed", default=1, show_default=True, help="Decides which mutants are played.")
@click.option("--timeout", default=120, show_default=True, help="After how many seconds a mutant counts as killed.")
def main(*, modules: tuple[str, ...], sql: bool, each: int, seed: int, timeout: int) -> None:
    """Plant random mistakes in modules, and count those that a test notices."""
    killed = played = 0
    for module in modules or TESTS_OF:
        outcomes = list(_play(module, each, seed, timeout, sql=sql))
        killed, played = killed + sum(outcomes), played + len(outcomes)
        print(f"{module:<40} {sum(outcomes):>5} of {len(outcomes):>5} killed", flush=True)
    print(f"{'all':<40} {killed:>5} of {played:>5} killed, {100 * killed / played:.1f} %")
    sys.exit(100 * killed < _LEAST_PERCENT[sql] * played)


def _play(module: str, each: int, seed: int, timeout: int, *, sql: bool) -> Iterator[bool]:
    """Yield whether each mutant is killed, and print those that survive without a verdict."""
    with temporary_folder() as folder:
        copy = folder / "copy"
        shutil.copytree(_TOP, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "__pycache__"))
        (copy / "mutants-1.dist-info").mkdir()
        for name, text in _METADATA.items():
            (copy / "mutants-1.dist-info" / name).write_text(text)
        tests = " ".join(f"seller_platform_tests/{path}" for path in TESTS_OF[module])
        path = Path("seller_platform", *module.split(".")).with_suffix(".py")
        (copy / "cosmic-ray.toml").write_text(f"""
[cosmic-ray]
module-path = "{path}"
timeout = {timeout}
test-command = "{sys.executable} -m pytest -q -x -n0 -p no:cacheprovider -m 'not slow and not nightly' {tests}"
distributor = {{name = "local"}}
filters = {{operators-filter = {{exclude-operators = {_EXCLUDED}}}}}
""")
        for command in (
            ["cosmic-ray", "baseline"],
            ["cosmic-ray", "init"],
            ["cr-filter-operators"],
            ["cosmic-ray", "exec"],
        ):
            names = ["cosmic-ray.toml", "mutants.sqlite"]
            files = {"baseline": names[:1], "cr-filter-operators": names[::-1]}.get(command[-1], names)
            if command[-1] == "exec":
                _choose(copy / names[1], random.Random(f"{seed} {module}"), each, sql=sql)
            program = [str(Path(sys.executable).with_name(command[0])), *command[1:], *files]
            subprocess.run(program, cwd=copy, check=True, env=os.environ | {"PYTHONPATH": str(copy)})
        with use_db(copy / "mutants.sqlite") as database:
            for item, result in database.completed_work_items:
                if result.worker_outcome is WorkerOutcome.SKIPPED:
                    continue
                lines = (line for line in (result.diff or "").splitlines() if not line.startswith(("---", "+++")))
                changed = [f"{line[0]} {line[1:]}".rstrip() for line in lines if line.startswith(("-", "+"))]
                name = f"{module} {item.mutations[0].definition_name or ''}".rstrip()
                survives = not result.is_killed and "\n".join([name, *changed]) not in verdicts()
                if survives:
                    print("", name, *changed, "", sep="\n", flush=True)
                yield not survives


def _choose(path: Path, chance: random.Random, each: int, *, sql: bool) -> None:
    """Skip all mutants but some that are drawn at random."""
    with use_db(path) as database:
        pending = sorted(database.pending_work_items, key=lambda item: str(item.mutations))
        chance.shuffle(pending)
        chosen = [item for item in pending if item.mutations[0].operator_name.startswith("sql/") is sql][:each]
        for item in pending:
            if item not in chosen:
                database.set_result(item.job_id, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))


if __name__ == "__main__":
    main()
