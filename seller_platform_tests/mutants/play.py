"""Runs tests with a mutant, in processes forked from one that has imported the libraries.

That process has imported all that the tests import, except the module that is changed and what imports it. A forked
process imports these, with the mistake, and runs pytest. So a mutant costs no start of an interpreter, of Dagster or of
PostgreSQL. The unchanged module is played first, in the same way: its tests must pass.
"""

import ast
import gc
import importlib
import json
import math
import os
import pickle
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.abc import MetaPathFinder, SourceLoader
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from itertools import islice
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import grimp
import psycopg
import pytest
from psycopg import sql

from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.mutants.choice import PACKAGE, Mutant, functions_of, mutants_of, path_of
from seller_platform_tests.mutants.modules import TESTS_OF
from seller_platform_tests.mutants.recording import Plugin, Recorded, arguments
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.postgres import TEMPLATE, Databases, drop_database

_TESTS = Path(__file__).parents[1]
_REACH = "__reach__"
# A loop without end is noticed by its CPU time, which does not depend on what else the machine does.
_LEAST_CPU_SECONDS, _LEAST_SECONDS = 30, 240
_LARGEST_MEMORY, _LARGEST_FILE = 8 << 30, 1 << 30


@dataclass(frozen=True)
class Played:
    """What became of a mutant.

    Attributes:
        change: As `Mutant.change`.
        code: The exit code of pytest, or the negative number of the signal that ended it.
        tests: How many tests reach the changed function.
        seconds: The CPU time that they took until one failed, without that of PostgreSQL.
    """

    change: str
    code: int
    tests: int
    seconds: float

    @property
    def is_killed(self) -> bool:
        """Whether a test failed, the process crashed or did not end in time. Other exit codes are errors of pytest."""
        return self.code == pytest.ExitCode.TESTS_FAILED or self.code < 0


class _Loader(MetaPathFinder, SourceLoader):
    """Loads one module from another text, without bytecode.

    Args:
        reach: Is called with the line of each function of the module that is called; None to record nothing.
    """

    def __init__(self, module: str, code: str, reach: Callable[[int], None] | None = None) -> None:
        self._name, self._path = f"{PACKAGE.name}.{module}", str(path_of(module))
        self._code, self._reach = code.encode(), reach

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name == self._name else None

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._code

    def source_to_code(self, data: Any, path: Any) -> CodeType:  # type: ignore[override]
        tree = ast.parse(data)
        if self._reach is not None:
            for function in functions_of(tree):
                # A test that gets a kept result depends on the function, too.
                function.decorator_list = [each for each in function.decorator_list if not _keeps_results(each)]
                has_docstring = ast.get_docstring(function) is not None
                function.body[has_docstring:has_docstring] = ast.parse(f"{_REACH}({function.lineno})").body
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)[_REACH] = self._reach
        super().exec_module(module)


def _keeps_results(decorator: ast.expr) -> bool:
    return ast.unparse(decorator).partition("(")[0] in {"cache", "lru_cache"}


def play(module: str, *, each: int, seed: int) -> Iterator[Played]:
    """Plant mistakes in a module, and yield what became of each.

    Raises:
        RuntimeError: The tests do not pass without a mistake.
    """
    tests = [str(_TESTS / path) for path in TESTS_OF[module]]
    with _databases() as (server, databases):
        plugin = Plugin(server, databases)
        recorded, modules = _learned(lambda: _recorded(module, plugin, tests))
        _empty(server, databases)
        late = _import(modules, module)
        unchanged = Mutant(module, path_of(module).read_text(), function=None, change="")
        if code := _played(unchanged, late, recorded, server, databases).code:
            raise RuntimeError(f"{module}: the tests of mutants end with {code} without a mistake, as printed above")
        for mutant in islice(mutants_of(module, seed=seed), each):
            yield _played(mutant, late, recorded, server, databases)


@contextmanager
def _databases() -> Iterator[tuple[EmbeddedServer, Databases]]:
    """Yield a server with a migrated template, and its databases."""
    with temporary_folder() as folder:
        server = EmbeddedServer(folder / "postgres")
        with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
            for name in ("autovacuum", "fsync", "full_page_writes"):
                connection.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(name)))
            connection.execute("SELECT pg_reload_conf()")
        _learned(lambda: _migrate(server))
        yield server, Databases(server)
        server.close()


def _migrate(server: EmbeddedServer) -> None:
    with Database(server.database(TEMPLATE)) as template:
        template.migrate(partitions=2)


def _recorded(module: str, plugin: Plugin, tests: list[str]) -> tuple[Mapping[str, Recorded], list[str]]:
    sys.meta_path.insert(0, _Loader(module, path_of(module).read_text(), plugin.reach))
    if pytest.main(arguments(tests), plugins=[plugin]) != 0:
        print(f"{module}: the tests that fail without a mistake are left out", file=sys.stderr)
    return plugin.recorded, list(sys.modules)


def _learned(work: Callable[[], Any]) -> Any:
    """Do some work in a forked process, which imports for itself, and return its result."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(2, 1)
        try:
            with open(writer, "wb") as pipe:  # noqa: PTH123  # a descriptor, not a path
                pickle.dump(work(), pipe)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writer)
    with open(reader, "rb") as pipe:  # noqa: PTH123  # a descriptor, not a path
        content = pipe.read()
    if os.waitpid(pid, 0)[1] != 0:
        raise RuntimeError("the tests without a mistake did not end")
    return pickle.loads(content)


class _Refusing(MetaPathFinder):
    """Refuses to import some modules, also for a module that names them in a text."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name in self._names:
            raise ImportError(name)


def _import(modules: Collection[str], changed: str) -> list[str]:
    """Import modules, except a product's module and what imports it, which are returned, and tests."""
    name = f"{PACKAGE.name}.{changed}"
    graph = grimp.build_graph(PACKAGE.name, _TESTS.name, cache_dir=None)
    refusing = _Refusing({name, *graph.find_downstream_modules(name)})
    modules = [
        each for each in modules if not (each.startswith(_TESTS.name) and ("test_" in each or "conftest" in each))
    ]
    sys.meta_path.insert(0, refusing)
    for each in modules:
        with suppress(Exception):
            importlib.import_module(each)
    sys.meta_path.remove(refusing)
    assert name not in sys.modules
    gc.collect()
    gc.freeze()
    return [each for each in modules if each.startswith((PACKAGE.name, _TESTS.name)) and each not in sys.modules]


def _played(
    mutant: Mutant,
    late: Sequence[str],
    recorded: Mapping[str, Recorded],
    server: EmbeddedServer,
    databases: Databases,
) -> Played:
    """Run the tests that reach a changed function, or all of them if none was changed."""
    chosen = {
        test: each.seconds
        for test, each in recorded.items()
        if mutant.function is None or mutant.function in each.functions
    }
    if not chosen:
        return Played(mutant.change, code=0, tests=0, seconds=0)
    databases.take_back(databases.lend())
    pid = os.fork()
    if pid == 0:
        os._exit(_run(mutant, late, Plugin(server, databases, chosen=chosen)))
    process = os.pidfd_open(pid)
    if not select.select([process], [], [], _LEAST_SECONDS + 5 * sum(chosen.values()))[0]:
        os.killpg(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    os.close(process)
    _empty(server, databases)
    return Played(mutant.change, os.waitstatus_to_exitcode(status), len(chosen), usage.ru_utime + usage.ru_stime)


def _run(mutant: Mutant, late: Sequence[str], plugin: Plugin) -> int:
    """Import modules with a mistake, run the chosen tests until one fails, and return the exit code of pytest.

    What cannot be imported with the mistake counts as a failed test. The output of an unchanged module is printed.
    """
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere if mutant.change else 2, 1)
    if mutant.change:
        os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_AS, (_LARGEST_MEMORY, _LARGEST_MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_LARGEST_FILE, _LARGEST_FILE))
    sys.meta_path.insert(0, _Loader(mutant.module, mutant.code))
    assert plugin.chosen is not None
    cpu_seconds = _LEAST_CPU_SECONDS + 2 * math.ceil(sum(plugin.chosen.values()))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    files = [str(_TESTS.parent / file) for file in dict.fromkeys(test.partition("::")[0] for test in plugin.chosen)]
    try:
        for module in late:
            importlib.import_module(module)
        return pytest.main(["-x", "--continue-on-collection-errors", *arguments(files)], plugins=[plugin])
    except BaseException:
        traceback.print_exc()
        return pytest.ExitCode.TESTS_FAILED


def _empty(server: EmbeddedServer, databases: Databases) -> None:
    """Empty the database that a run has used, unless the run dropped it, and drop those that the run has made."""
    with psycopg.connect(server.url("postgres"), autocommit=True) as connection:
        names = {name for (name,) in connection.execute("SELECT datname FROM pg_database WHERE NOT datistemplate")}
    databases._free[:] = [name for name in databases._free if name in names]
    if databases._free:
        databases.take_back(databases.lend())
    for name in names.difference(databases._free, ["postgres", TEMPLATE]):
        drop_database(server, name)


if __name__ == "__main__":
    for one in play(sys.argv[1], each=int(sys.argv[2]), seed=int(sys.argv[3])):
        print(json.dumps(asdict(one)), flush=True)
