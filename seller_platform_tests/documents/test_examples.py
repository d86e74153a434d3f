"""A reader types every command of the documents, and runs every example in Python and YAML."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from sqlalchemy import text

from seller_platform.books.journal_accounts import DEFAULT_ACCOUNTS, accounts_of
from seller_platform.cli.output import Output
from seller_platform.contract.window import Window
from seller_platform.marts.rules.formulas import read_formula
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.sandbox.commands.demo import approve
from seller_platform.sandbox.commands.local_stack import USER_EMAIL, LocalStack, open_local_stack
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.documents.markdown import Document
from seller_platform_tests.documents.shell import PASSWORD, Shell
from seller_platform_tests.support.engines import install_duckdb_extension
from seller_platform_tests.support.folders import ROOT_DATA
from seller_platform_tests.support.processes import environment, free_port
from seller_platform_tests.tools.documentation import PAGES, README

pytestmark = [pytest.mark.journey, pytest.mark.timeout(900)]

TOP = README.parent
# The README last: it assumes what `demo` leaves, an installation with rows.
ORDER = (
    "connect",
    "backfill",
    "checks",
    "trust",
    "consume",
    "profit",
    "reports",
    "costs",
    "serve",
    "agents",
    "deploy",
    "growing",
    "operate",
    "promises",
    "README.md",
)
FIRST_PAGES = ("connect", "README.md")
"""What each change is tried with; every page is tried every night."""
NOT_TYPED = {
    "pip install -e . && seller-platform demo": "sandbox/commands/test_demo.py runs `demo`, .ci/run installs",
    "pip install -e '.[test]' && pytest": ".ci/run runs both",
    "pip install ../seller-platform dagster-dg-cli 'typer<0.26'": ".ci/run installs all three",
    "pip install -e '.[notebook]'": "requirements.lock has what the tests need of it",
    "dg scaffold defs seller_platform.SellerPlatformComponent market": "journeys/test_mounted_project.py runs it",
    "pip install 'seller-platform[lake]'": "requirements.lock has what the tests need of it",
    "seller-platform export --folder s3://bucket/lake": "exports/test_partitions.py asks a store that refuses",
    "dg dev": "journeys/test_mounted_project.py launches the same assets with `dg launch`",
    **dict.fromkeys(
        (
            "cp \"$(python -c 'import seller_platform; print(*seller_platform.__path__)')\""
            "/orchestration/{dagster,workspace}.yaml .",
            "DAGSTER_HOME=$PWD dagster dev",
        ),
        "clean_environment.py types both with a wheel",
    ),
    "seller-platform dev": "sandbox/commands/test_dev.py runs it",
    "seller-platform database remove": "cli/database/test_command.py deletes servers",
    "seller-platform service run --replica": "journeys/test_replica.py runs it",
    "sudo chown 10001 database_url secret_key && sudo chown 999 postgres_password": "only root may give files away",
    "pip install --require-hashes -r requirements.lock": ".ci/run installs it",
    "pip install --no-deps -e .": ".ci/run installs it",
    "pip wheel --no-deps --wheel-dir dist .": "deployment/test_release.py builds the wheel",
    "docker compose -f ../compose.yaml up --detach": "deployment/test_compose.py runs the programs of the file",
    **dict.fromkeys(
        (
            "docker compose -f docker/compose.yaml -f docker/compose.celery.yaml up --detach",
            "celery --app seller_platform.orchestration.celery_runs worker --queues dagster",
        ),
        "deployment/test_compose.py runs the programs of both files",
    ),
}
"""Lines that this test does not type, each with its reason."""
UNTIL_CTRL_C = ("seller-platform database run", "seller-platform status --watch")
"""Lines that this test ends once they have printed something."""
ENDS = {
    # The source has forgotten a month of orders, for the page about checks.
    "seller-platform verify --dataset orders --from 2026-03 --to 2026-03": 5,
    # The lists of this source add up.
    'seller-platform acknowledge mismatched orders us-1042 --month 2026-03 --note "the upstream counts returns"': 2,
    'seller-platform acknowledge mismatched orders us-1042 --month 2026-03 --until 2026-12-31 --note "reported"': 2,
}
"""The exit codes of lines that end with another one than 0."""
SERVES = "seller-platform service run"
"""Lines that begin so run until the end of their document, in another terminal."""
SHOWS = {
    (README.name, "seller-platform doctor"): "All prerequisites are met",
    (README.name, "seller-platform status"): "Everything is loaded, and nothing needs attention",
}
"""What lines of a document print."""


@dataclass
class Reader:
    """A reader with an installation beside a served sandbox."""

    stack: LocalStack
    shell: Shell
    clone: Path
    account: str
    month: Window

    def ask(self, query: str) -> Any:
        """Return the first value of a query over the warehouse."""
        with Database(self.stack.environment["SELLER_PLATFORM_DATABASE_URL"]) as database, database.begin() as opened:
            return opened.execute(text(query)).scalar()

    def prepare(self, page: str) -> None:
        """Bring about what a page is about: a reading that is held, files of costs, rates and products."""
        folder = self.shell.folder = self.clone
        if page == "checks":
            with Database(self.stack.sandbox_url) as served, served.begin() as opened:
                of_month = {"first": self.month.start, "end": self.month.end}
                gone = text("DELETE FROM seller.orders WHERE local_day >= :first AND local_day < :end")
                opened.execute(gone, of_month)
                opened.execute(text("DELETE FROM service.summaries"))
            assert self.shell.type("seller-platform sync --full --dataset orders") == 5, self.shell.printed
        if page == README.name:
            if not self.ask("SELECT count(*) FROM seller.orders"):
                assert self.shell.type("seller-platform sync") == 0, self.shell.printed
            # Its reader has run `demo`, which uses the folder of the stack, and connects an installation of their own.
            self.shell.variables["SELLER_PLATFORM_HOME"] = str(self.stack.home.parent)
            for variable in ("SELLER_PLATFORM_HISTORY_START", "SELLER_API_AUTH_URL"):
                self.shell.variables.pop(variable, None)
            self.shell.approve = partial(approve, email="ann@shop.example", password=PASSWORD)
            (folder / "first_look.ipynb").unlink(missing_ok=True)  # the page about reading has copied it
        if page == "consume":
            install_duckdb_extension(self.clone.parent)
            self.shell.variables["HOME"] = str(self.clone.parent)
        if page == "costs":
            (lines,) = Document(PAGES / "costs.md").blocks("csv")
            (folder / "costs.csv").write_text(self.shell.spelled(lines))
        if page == "serve":
            (folder / "rates.csv").write_text(f"day,currency,per_euro\n{self.month.start},USD,1.08\n")
            products = self.shell.spelled("account,sku,lead_time_days\nus-1042,MUG-BLUE-350,20\n")
            (folder / "products.csv").write_text(products)


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """A reader in a clone of the repository, before anything is connected."""
    # `doctor` lists what deleted homes have left there, also those of other tests.
    monkeypatch.setenv(ROOT_DATA, f"{os.environ[ROOT_DATA]}/{tmp_path.name}")
    clone = tmp_path / "seller platform"
    shutil.copytree(TOP / "docker", clone / "docker", ignore=shutil.ignore_patterns("secrets"))
    for name in ("dagster.yaml", "workspace.yaml"):
        shutil.copy(TOP / name, clone / name)
    with open_local_stack(tmp_path / "home", Output(as_json=True), accounts=1, months=2) as stack:
        yield _reader(stack, clone, tmp_path / "programs")
        stack.server.close()


def _reader(stack: LocalStack, clone: Path, programs: Path) -> Reader:
    with Database(stack.sandbox_url) as served, served.begin() as opened:
        account, first = opened.execute(text("SELECT account, min(local_day) FROM seller.orders GROUP BY 1")).one()
    month = Window.month_of(first)

    def of_warehouse(query: str) -> Callable[[], str]:
        return lambda: str(newcomer.ask(query))

    def application() -> tuple[str, str]:
        return newcomer.shell.application or (stack.credentials.client_id, stack.credentials.client_secret)

    port = free_port()
    values: dict[str, Callable[[], str]] = {
        "SELLER_API_CLIENT_ID=...": lambda: f"SELLER_API_CLIENT_ID={application()[0]}",
        "SELLER_API_CLIENT_SECRET=...": lambda: f"SELLER_API_CLIENT_SECRET={application()[1]}",
        "http://127.0.0.1:8765/callback": lambda: stack.credentials.redirect_uri,
        "http://127.0.0.1:8700": lambda: f"http://127.0.0.1:{port}",
        "sandbox load": lambda: "sandbox load --accounts 1 --months 2",
        "month close": lambda: "month close --unsettled",  # in the first half of a month
        SERVES: lambda: f"{SERVES} --port {port}",
        "https://api.example.com": lambda: stack.base_url,
        "https://app.example.com": lambda: stack.base_url,
        ".seller_platform/sandbox": lambda: str(stack.home),
        "postgresql://seller@db.example/empty": lambda: f"'{stack.server.database('empty')}'",
        "us-1042": lambda: account,
        "MUG-BLUE-350": of_warehouse("SELECT min(sku) FROM seller.inventory_latest"),
        "305-1234567-1234567": of_warehouse("SELECT max(platform_order_id) FROM seller.orders"),
        "2026-04-01": lambda: str(month.end),
        "2026-03": lambda: f"{month.start:%Y-%m}",
        "2026-01": lambda: f"{month.start:%Y-%m}",
        "download NUMBER": lambda: f"download {newcomer.ask('SELECT max(id) FROM platform.report_jobs')}",
        "accept LOAD": lambda: f"accept {newcomer.ask(_HELD)}",
        "revert LOAD": lambda: f"revert {newcomer.ask(_CHANGED)}",
        "PLAN": of_warehouse("SELECT max(id) FROM platform.cost_plans"),
    }
    person = partial(approve, email=USER_EMAIL, password=stack.credentials.password)
    variables = environment(
        stack.home,
        SELLER_API_REDIRECT_URI=stack.credentials.redirect_uri,
        SELLER_PLATFORM_HISTORY_START=str(month.start),
    )
    shell = Shell(clone, variables, values, person, programs)
    newcomer = Reader(stack, shell, clone, account, month)
    return newcomer


_HELD = "SELECT max(id) FROM platform.loads WHERE verdict = 'held'"
_CHANGED = "SELECT max(id) FROM platform.loads WHERE dataset = 'orders' AND changed"


@pytest.mark.parametrize(
    "pages", [FIRST_PAGES, pytest.param(ORDER, marks=pytest.mark.nightly)], ids=["first pages", "all pages"]
)
def test_every_command_and_example_of_the_documents_works_in_their_order(
    reader: Reader, monkeypatch: pytest.MonkeyPatch, pages: tuple[str, ...]
) -> None:
    failures = []
    for name in pages:
        document = Document(README if name == README.name else PAGES / f"{name}.md")
        reader.prepare(name)
        with ExitStack() as other_terminal:
            for line in document.lines:
                if line in NOT_TYPED:
                    continue
                if line.startswith(SERVES):
                    other_terminal.enter_context(reader.shell.serving(line))
                    continue
                code = reader.shell.interrupt(line) if line in UNTIL_CTRL_C else reader.shell.type(line)
                if code != ENDS.get(line, 0) or SHOWS.get((name, line), "") not in reader.shell.printed:
                    failures.append(f"{name}: {line}\nended with {code}:\n{reader.shell.printed[-1500:]}")
        with monkeypatch.context() as patch:
            patch.chdir(reader.shell.folder)
            for variable, value in reader.shell.variables.items():
                patch.setenv(variable, value)
            for example in document.blocks("python"):
                try:
                    _run_python(reader.shell.spelled(example))
                except Exception as error:  # all failures are shown together
                    failures.append(f"{name}: {example}\nfailed: {error!r}")

    assert not failures, "\n\n".join(failures)


def _run_python(example: str) -> None:
    """Run an example as a reader does; it defines a frame with rows, definitions, or a class that makes them."""
    names: dict[str, Any] = {}
    exec(example, names)
    if "frame" in names:
        assert len(names["frame"]) > 0, example
    else:
        defs = names["defs"] if "defs" in names else names["OurSellers"]().definitions()
        assert defs != dg.Definitions(), example


def test_the_component_accepts_the_attributes_of_the_example() -> None:
    (example,) = map(yaml.safe_load, Document(PAGES / "consume.md").blocks("yaml"))

    model = SellerPlatformComponent.get_model_cls()

    assert model is not None
    model.model_validate(example["attributes"])


def test_the_formula_of_the_example_is_accepted(tmp_path: Path) -> None:
    (example,) = Document(PAGES / "profit.md").blocks("yaml")
    (tmp_path / "formula.yaml").write_text(example)

    assert read_formula(tmp_path / "formula.yaml").name == "cash"


def test_the_accounts_of_the_example_are_the_default(tmp_path: Path) -> None:
    (example,) = Document(PAGES / "month-end.md").blocks("yaml")
    (tmp_path / "accounts.yaml").write_text(example)

    assert replace(accounts_of(tmp_path / "accounts.yaml"), content="") == DEFAULT_ACCOUNTS


def test_the_lines_that_are_not_typed_are_still_in_the_documents() -> None:
    typed = {line for path in (README, *PAGES.rglob("*.md")) for line in Document(path).lines}

    assert {*NOT_TYPED, *ENDS, *UNTIL_CTRL_C} <= typed
    assert {path.stem for path in PAGES.rglob("*.md") if Document(path).lines} <= set(ORDER)
