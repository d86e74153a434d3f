"""The plugin of pytest that records which tests reach a function, and runs those."""

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, settings

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.support.postgres import Databases


@dataclass(frozen=True)
class Recorded:
    """What a test took and reached.

    Attributes:
        functions: The lines of the functions of the changed module that it called, or a fixture of its module.
    """

    seconds: float
    functions: Collection[int]


@dataclass(eq=False)
class Plugin:
    """Lends one server to all runs, and runs chosen tests, the quickest first.

    Args:
        chosen: The tests that run, by their ids, with their seconds; None for all.
    """

    server: EmbeddedServer
    databases: Databases
    chosen: Mapping[str, float] | None = None
    _called: set[int] = field(default_factory=set)
    _of_fixtures: dict[str, set[int]] = field(default_factory=dict)
    _of_tests: dict[str, set[int]] = field(default_factory=dict)
    _passed: set[str] = field(default_factory=set)
    _seconds: dict[str, float] = field(default_factory=dict)

    @property
    def recorded(self) -> dict[str, Recorded]:
        """By the id of each test that passed, what it took and reached."""
        return {
            test: Recorded(seconds, self._of_tests[test] | self._of_fixtures[_module(test)])
            for test, seconds in self._seconds.items()
            if test in self._passed
        }

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        """Let hypothesis draw the same examples each time, and not look for smaller ones after a failure."""
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", settings(), derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Generator[None]:
        """Keep the chosen tests, the quickest first."""
        yield
        if (chosen := self.chosen) is not None:
            items[:] = sorted((item for item in items if item.nodeid in chosen), key=lambda item: chosen[item.nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object], request: Any) -> object:
        """Use the server and the databases that exist."""
        lent: object = {"postgres": self.server, "databases": self.databases}.get(fixturedef.argname)
        if lent is not None:
            fixturedef.cached_result = (lent, fixturedef.cache_key(request), None)
        return lent

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """Record what fixtures call; each test of a module may rely on it."""
        self._called = self._of_fixtures.setdefault(_module(item.nodeid), set())
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Record what a test calls."""
        self._called = self._of_tests.setdefault(item.nodeid, set())
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record how long a test takes with its fixtures."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0) + report.duration
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def reach(self, line: int) -> None:
        """Record that the function in a line is called."""
        self._called.add(line)


def _module(test: str) -> str:
    return test.partition("::")[0]


def arguments(tests: Sequence[str]) -> list[str]:
    """Return the arguments of pytest that run modules of tests in this process."""
    imported_before = "-Wignore::pytest.PytestAssertRewriteWarning"
    return ["-q", "-n0", "-pno:cacheprovider", "-mnot slow and not nightly", imported_before, *tests]
