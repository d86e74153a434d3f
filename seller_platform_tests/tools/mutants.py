"""Plants random mistakes in modules that hold promises, and counts those that no test notices.

    python -m seller_platform_tests.tools.mutants [MODULE...]

In a copy of the project, cosmic-ray makes the mutants of a module, and runs the tests that `mutants.toml` lists with
each of those that are drawn. The survivors are printed. The exit code is 1 if more than 15 % of a module's survive.
"""

import os
import random
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import WorkerOutcome, WorkResult

from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.tools.lock import TOP

_EACH, _LEAST_PERCENT = 40, 85
"""How many mutants of each module are drawn, and how many must be killed: some mean the same as what they change."""

_CONFIGURATION = """
[cosmic-ray]
module-path = "{path}"
timeout = 120
test-command = "{python} -m pytest -q -x -n0 -p no:cacheprovider -m 'not slow and not nightly' {tests}"
distributor = {{name = "local"}}
# Annotations such as `str | None`, signatures with a bare `*`, and comparisons of enumerations that mean the same.
[cosmic-ray.filters.operators-filter]
exclude-operators = [
    "core/ReplaceBinaryOperator_(BitOr_.*|Mul_Div)",
    "core/ReplaceComparisonOperator_(Is_Eq|IsNot_NotEq|Eq_Is|NotEq_IsNot)",
]
"""


def main() -> int:
    """Play the mutants of modules, by default of all that are listed."""
    tests_of = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return max(_play(module, tests_of[module]) for module in sys.argv[1:] or tests_of)


def _play(module: str, paths: list[str]) -> int:
    with temporary_folder() as folder:
        copy, programs = folder / "copy", Path(sys.executable).parent
        shutil.copytree(TOP, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "__pycache__"))
        path = Path("seller_platform", *module.split(".")).with_suffix(".py")
        tests = " ".join(f"seller_platform_tests/{each}" for each in paths)
        (copy / "run.toml").write_text(_CONFIGURATION.format(path=path, python=sys.executable, tests=tests))

        def run(program: str, *words: str) -> int:
            variables = os.environ | {"PYTHONPATH": str(copy)}
            return subprocess.run([programs / program, *words], cwd=copy, env=variables, check=False).returncode

        assert run("cosmic-ray", "baseline", "run.toml") == 0, f"the tests of {module} fail without a mistake"
        run("cosmic-ray", "init", "run.toml", "run.sqlite")
        run("cr-filter-operators", "run.sqlite", "run.toml")
        with use_db(copy / "run.sqlite") as database:
            for item in random.sample(pending := list(database.pending_work_items), max(0, len(pending) - _EACH)):
                database.set_result(item.job_id, WorkResult(worker_outcome=WorkerOutcome.SKIPPED))
        run("cosmic-ray", "exec", "run.toml", "run.sqlite")
        run("cr-report", "--show-diff", "--surviving-only", "run.sqlite")
        with use_db(copy / "run.sqlite") as database:
            killed = [it.is_killed for _, it in database.results if it.worker_outcome is not WorkerOutcome.SKIPPED]
        print(f"{module}: {sum(killed)} of {len(killed)} killed", flush=True)
        return int(100 * sum(killed) < _LEAST_PERCENT * len(killed))


if __name__ == "__main__":
    sys.exit(main())
