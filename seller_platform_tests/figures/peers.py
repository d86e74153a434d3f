"""Measures `sync` beside dlt, Singer and PyAirbyte, which store the same rows of the same upstream.

The command installs each tool with pinned versions into an environment of its own, below a temporary folder. An
upstream that is always the faster side sends accounts x months x rows of orders and of transactions, in pages of
2,000. Each tool loads all of it into a PostgreSQL server of its own: first into an empty database, then again
unchanged, then again after 1 % of the rows have changed. The API says of no row when it changed, so each load
reads all pages. After each, the stored rows are compared with those of the upstream: their number, the sum of their
money, and how many are missing or too many, by all values.

How each is set up, by its own documentation:

- sync: `seller-platform sync`, with slices, history, receipts and checks; all others have none of these
- dlt-replace: Arrow tables made of pages that orjson decodes; Parquet files; ADBC; `write_disposition="replace"`
- dlt-merge: the same, with account and month as `merge_key`, so that a load replaces the slices that it read
- singer: a tap of the Singer SDK with `MsgSpecWriter`; `target-postgres` with `use_copy`, without validation, in
  batches of 50,000 rows. Orders are upserted by key; transactions, which have no key, are replaced
  (`ACTIVATE_VERSION` and `hard_delete`). The tap converts moments to UTC, because the target's columns drop offsets
- PyAirbyte: a declarative manifest and a PostgresCache; the strategy `auto` merges orders by key and replaces
  transactions. Moments stay text, because its columns of moments drop offsets

CPU is in microseconds a row; it and the memory are of all processes of a tool. MiB is the most that they held
together. The clock's time is a ratio to that of `sync` in the same load, because a busy machine changes seconds.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from json import dumps
from pathlib import Path

import httpx
import psycopg
from rich.table import Table

from seller_platform.warehouse.postgres.embedded import EmbeddedServer
from seller_platform_tests.figures.free_service import CHANGE, connected, free_service, pages_per_second, variables_of
from seller_platform_tests.figures.loading import DATASETS, sync_of
from seller_platform_tests.figures.measuring import Spent, spent_by_command
from seller_platform_tests.figures.pipelines.environments import AS_OF, PACKAGES, Job, install
from seller_platform_tests.figures.pipelines.parity import Stored, compare
from seller_platform_tests.support.folders import temporary_folder
from seller_platform_tests.support.processes import COMMAND

OURS = "sync"
TOOLS = {OURS: OURS, "dlt-replace": "dlt", "dlt-merge": "dlt", "singer": "singer", "PyAirbyte": "PyAirbyte"}
"""The environment of each tool."""

LOADS = ("first", "unchanged", "1 % changed")
_PIPELINES = Path(__file__).with_name("pipelines")
_QUIET = {"RUNTIME__DLTHUB_TELEMETRY": "false", "AIRBYTE_OFFLINE_MODE": "1"}
_TARGET = {
    "use_copy": True,
    "validate_records": False,
    "batch_size_rows": 50_000,
    "default_target_schema": "lists",
    "hard_delete": True,
}


@dataclass(frozen=True)
class Load:
    """One load of all lists, and what is stored of each afterwards."""

    tool: str
    load: str
    spent: Spent
    stored: Mapping[str, Stored]

    @property
    def cpu(self) -> float:
        """Seconds of CPU, of the tool and of PostgreSQL."""
        return self.spent.own + self.spent.postgres

    @property
    def different(self) -> int:
        """How many stored rows are not those of the upstream."""
        return sum(stored.different for stored in self.stored.values())


@dataclass(frozen=True)
class Comparison:
    """The loads of all tools.

    Attributes:
        left_out: Why a tool is left out, by tool.
    """

    rows: int
    pages_a_second: int
    left_out: dict[str, str] = field(default_factory=dict)
    loads: list[Load] = field(default_factory=list)

    @property
    def table(self) -> Table:
        """A line for each tool and load."""
        table = Table(title=f"{self.rows:,} rows; the upstream sends {self.pages_a_second:,} pages a second")
        columns = ("own µs", "PostgreSQL µs", "µs a row", "x sync", "MiB", "wall x sync", "rows", "that differ")
        for name in ("", "load", *columns):
            table.add_column(name, justify="right" if name in columns else "left")
        for each in self.loads:
            cpu, wall = self._ratios(each)
            per_row = [seconds / self.rows * 1e6 for seconds in (each.spent.own, each.spent.postgres, each.cpu)]
            cells = [*(f"{value:,.1f}" for value in per_row), f"{cpu:.2f}", f"{each.spent.mib:,}", f"{wall:.2f}"]
            counts = (sum(stored.rows for stored in each.stored.values()), each.different)
            table.add_row(each.tool, each.load, *cells, *(f"{count:,}" for count in counts))
        for tool, reason in self.left_out.items():
            table.add_row(tool, f"left out: {reason}")
        return table

    @property
    def exit_code(self) -> int:
        """1 if a tool is left out, or if `sync` stored other rows than the upstream's."""
        return int(bool(self.left_out) or any(each.different for each in self.loads if each.tool == OURS))

    def _ratios(self, load: Load) -> tuple[float, float]:
        """Return the CPU and the clock's time, as ratios to those of `sync` in the same load."""
        sync = next(each for each in self.loads if (each.tool, each.load) == (OURS, load.load))
        return load.cpu / sync.cpu, load.spent.seconds / sync.spent.seconds

    def document(self, postgresql: str) -> dict[str, object]:
        """Return everything, for a file."""
        loads = [
            {
                "tool": each.tool,
                "load": each.load,
                "own_cpu_seconds": round(each.spent.own, 2),
                "postgresql_cpu_seconds": round(each.spent.postgres, 2),
                "cpu_microseconds_a_row": round(each.cpu / self.rows * 1e6, 2),
                "cpu_ratio_to_sync": round(self._ratios(each)[0], 2),
                "wall_ratio_to_sync": round(self._ratios(each)[1], 2),
                "peak_mib": each.spent.mib,
                "stored": {name: asdict(stored) for name, stored in each.stored.items()},
            }
            for each in self.loads
        ]
        return {
            "ended": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": self.rows,
            "pages_a_second": self.pages_a_second,
            "processors": os.cpu_count(),
            "load_averages": os.getloadavg(),
            "python": sys.version.partition(" ")[0],
            "postgresql": postgresql,
            "packages": {tool: PACKAGES[of] for tool, of in TOOLS.items() if tool != OURS},
            "packages_as_of": AS_OF,
            "left_out": self.left_out,
            "loads": loads,
        }


@dataclass(frozen=True)
class _Tool:
    """An installed tool: its server, the command of one load, its environment, and where it stores."""

    server: EmbeddedServer
    command: list[str]
    variables: Mapping[str, str]
    job: Job
    schema: str = "lists"


def measure(
    *, accounts: int = 2, months_of_each: int = 12, rows: int = 20_000, tools: str = ",".join(TOOLS), document: str = ""
) -> Comparison:
    """Options: accounts, months of each, rows of a month and list, tools beside `sync`, and a file for the document."""
    count = len(DATASETS) * accounts * months_of_each * rows
    with free_service(accounts, months_of_each, rows) as url, temporary_folder() as folder, ExitStack() as servers:
        comparison, installed = Comparison(count, round(pages_per_second(url))), {}
        for name in dict.fromkeys((OURS, *tools.split(","))):
            server = servers.enter_context(closing(EmbeddedServer(folder / "servers" / name)))
            job = Job(url, server.database(name), folder / name, accounts, months_of_each)
            try:
                programs = install(TOOLS[name], folder / "environments")
            except subprocess.CalledProcessError as error:
                comparison.left_out[name] = error.stderr
            else:
                installed[name] = _tool(name, server, programs, job)
        for load in LOADS:
            if load == LOADS[-1]:
                httpx.get(url + CHANGE).raise_for_status()
            for name, tool in installed.items():
                measured = spent_by_command(tool.command, tool.variables, tool.server)
                stored = {listed: compare(tool.job, tool.schema, listed) for listed in DATASETS}
                if name == OURS and any(each.different for each in stored.values()):
                    raise AssertionError(f"sync does not store what the upstream sent: {stored}")
                comparison.loads.append(Load(name, load, measured, stored))
        with psycopg.connect(server.url("postgres")) as connection:
            version = connection.info.server_version
    if document:
        Path(document).write_text(
            dumps(comparison.document(f"{version // 10_000}.{version % 10_000}"), indent=2) + "\n"
        )
    return comparison


def _tool(name: str, server: EmbeddedServer, programs: Path, job: Job) -> _Tool:
    """Return a tool. Peers get the job as a file, and their log goes into a file, which is printed if they fail."""
    if name == OURS:
        site = connected(server, job.folder, OURS, job.url)
        command = [str(programs / "seller-platform"), *sync_of(job.month_count)[len(COMMAND) :]]
        return _Tool(server, command, variables_of(site), job, "seller")
    path, python, log = job.write(), programs / "python", job.folder / "log"
    if name == "singer":
        target = job.folder / "target.json"
        url = job.database.replace("postgresql://", "postgresql+psycopg://")
        target.write_text(dumps({**_TARGET, "sqlalchemy_url": url}))
        tap = [python, _PIPELINES / "singer_tap.py", "--config", path]
        line = f"{_shell(tap)} | {_shell([programs / 'target-postgres', '--config', target])}"
    elif name == "PyAirbyte":
        line = _shell([python, _PIPELINES / "airbyte_pipeline.py", path])
    else:
        line = _shell([python, _PIPELINES / "dlt_pipeline.py", path, name.removeprefix("dlt-")])
    failing = f"{{ tail -n 30 {log} >&2; exit 1; }}"
    return _Tool(server, ["bash", "-o", "pipefail", "-c", f"{{ {line}; }} 2>{log} || {failing}"], _QUIET, job)


def _shell(words: Sequence[object]) -> str:
    return shlex.join(map(str, words))
