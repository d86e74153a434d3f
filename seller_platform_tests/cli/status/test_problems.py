"""Tests that everything says the same of what is wrong: text, JSON, exit codes, alerts and the printed command."""

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

import seller_platform
from seller_platform.capabilities import capabilities
from seller_platform.cli.installation import open_stored_installation
from seller_platform.cli.metrics import WarehouseCollector
from seller_platform.cli.sync import Synced, problem_of
from seller_platform.contract import REFRESHED, Account, Window, dataset_named
from seller_platform.errors import (
    BudgetTooSmallError,
    CheckFailedError,
    ReadingHeldError,
    ReauthorizationRequiredError,
    RequestsUsedUpError,
    SellerPlatformError,
    UpstreamUnavailableError,
    WarehouseError,
)
from seller_platform.orchestration.assets.checks import checks_of, judgements
from seller_platform.warehouse.connections.accounts import save_accounts
from seller_platform.warehouse.derived.due import Derived, DerivedInput, keep_try, state_of
from seller_platform.warehouse.loads.history_start import extend_history
from seller_platform.warehouse.loads.holds import Claim, Doubt
from seller_platform.warehouse.loads.recounts import recount
from seller_platform.warehouse.loads.refusals import keep_refusal
from seller_platform.warehouse.migrations.upgrade import problem_sources
from seller_platform.warehouse.monitoring.problems import (
    acknowledge,
    end_acknowledgements,
    problems,
    slice_problems,
    to_report,
)
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.platform import open_platform
from seller_platform_tests.support.processes import connected_environment
from seller_platform_tests.support.receipts import mark_loaded, store_receipt
from seller_platform_tests.support.shop import mart_named
from seller_platform_tests.support.stored_rows import add_rows
from seller_platform_tests.support.terminals import show

ACCOUNTS, ORDERS = dataset_named("accounts"), dataset_named("orders")
MART = Derived.of(mart_named("account_profit_daily"))
EXPORT = Derived("orders", "", is_monthly=True, inputs=(DerivedInput("orders", is_monthly=True),), folder="/lake")
NOW = datetime.now(UTC)
TODAY, DAY = Window.day(NOW.date()), timedelta(days=1)
MONTH = Window.month_of(NOW.date() - timedelta(days=3))  # days of the last two are not due yet
KEY = "at-41"
_CHECKED = {"error": "ERROR", "warning": "WARN"}
_READ = "UPDATE platform.slices SET current_at = {0}, read_at = {0}"
_REFUSED, _ISSUED = (f"UPDATE platform.grants SET {column} = {{}}" for column in ("refused", "issued_at"))
_RETIRED = "UPDATE platform.accounts SET retired_at = {}"
_ZONE = "UPDATE platform.slices SET time_zone = '{}' WHERE dataset = 'orders'"
_USED_UP = RequestsUsedUpError("default", per_day=10, renews_at=NOW)
_CHANGED = {f"order_total {code}": {"before": 1, "after": 4} for code in ("EUR", "USD")}
_WRITTEN = SellerPlatformError("/lake/orders: cannot be written", step="Make the folder writable.")


@dataclass
class Site:
    """An installation with one account, of which all is loaded."""

    database: Database
    variables: dict[str, str]

    def execute(self, statement: str, **values: object) -> None:
        self.database.execute(text(statement), values)

    def apply(self, change: "Change") -> None:
        self.execute(change) if isinstance(change, str) else change(self)

    def fail(self, error: SellerPlatformError, run_id: str | None = None) -> None:
        keep_refusal(self.database, ORDERS, KEY, MONTH, error, run_id=run_id)

    def note(self, name: str, value: object, **columns: Any) -> None:
        store_receipt(self.database, ORDERS, KEY, MONTH, rows=11, announced=11, notes={name: value}, **columns)

    def hold(self, name: str, amount: int | None = None, currency: str = "EUR") -> None:
        amounts = {} if amount is None else {"2026-03-01": Decimal(amount - 4), "2026-03-02": Decimal(4)}
        claim = {day: Claim(0, each) for day, each in amounts.items()}
        notes = {"held": msgspec.to_builtins(Doubt("days", "no row was read", 9, 0, claim))}
        store_receipt(self.database, dataset_named(name), KEY, MONTH, verdict="held", notes=notes, currency=currency)

    def mismatch(self, rows: int, *days_ago: int) -> None:
        for days in days_ago or (0,):
            at = NOW - timedelta(days=days)
            store_receipt(self.database, ORDERS, KEY, MONTH, at=at, verdict="mismatch", rows=rows, announced=9)

    def make(self, derived: Derived, *contradictions: str, error: SellerPlatformError | None = None) -> None:
        """Note that a mart or an export of the month was made, or why it was not."""
        check = {"rule": "Sums agree.", "next_step": "Enter costs.", "is_warning": False, "since": f"{NOW}"}
        checks = {each: check | {"sentence": each} for each in contradictions}
        with self.database.begin() as connection:
            state = state_of(connection, derived, KEY, MONTH)
            keep_try(connection, derived, state, run_id=None, failed_checks=checks, error=error)

    def said(self) -> tuple[object, ...]:
        """Return what the tool of agents and the metrics say, and the severities of the checks that fail."""
        rows: Sequence[Any]
        if "agents" in {each.name for each in capabilities()}:
            from seller_platform.agents.asker import Asker  # it may be removed
            from seller_platform.agents.tools import call_tool

            rows = call_tool(Asker(self.database), "problems", {}).rows
        else:
            rows = slice_problems(self.database)
        with open_stored_installation() as installation:
            families = list(WarehouseCollector(installation).collect())
        samples = [sample.labels for each in families if each.name.endswith("_problems") for sample in each.samples]
        checked = [
            result
            for name in ("orders", "accounts", "transactions")
            for result in judgements(self.database, dataset_named(name))
        ]
        return (
            {(each.kind, each.severity, str(each.acknowledged_by is not None).lower()) for each in rows},
            {(each["kind"], each["severity"], each["acknowledged"]) for each in samples},
            {result.severity.value for result in checked if not result.passed},
        )

    def status(self) -> tuple[int, dict[str, dict[str, Any]]]:
        """Return the exit code, and the problems of the JSON document by their kind."""
        ended = run_here(["status", "--json"], self.variables)
        return ended.returncode, {each["kind"]: each for each in json.loads(ended.stdout)["problems"]}


@pytest.fixture
def site(database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with open_platform(database, database_url, tmp_path) as platform:
        platform.upstream.issue_lasting_tokens()
        platform.upstream.accounts = independent_upstream.ACCOUNTS[:1]
        account = Account(41, "Shop", "AT", "EUR", "Europe/Berlin", "market.example", "A1FOREIGN")
        save_accounts(database, "default", [(KEY, account)])
        extend_history(database, MONTH.start)
        for dataset in REFRESHED:
            mark_loaded(database, dataset, KEY, Window(MONTH.start, TODAY.end) if dataset.is_dated else TODAY)
        site = Site(database, connected_environment(platform.upstream.application, database_url, tmp_path))
        for name, value in site.variables.items():
            monkeypatch.setenv(name, value)
        site.execute("UPDATE platform.accounts SET first_seen_at = now() - interval '27 hours'")
        yield site


Change = str | Callable[[Site], object]
"""A statement, or a function."""


@dataclass(frozen=True)
class Case:
    """A problem: how it comes, how it gets worse, and how it ends."""

    kind: str
    severity: str
    code: int
    plant: Change
    worsen: Change | None = None
    end: Change = field(default=lambda site: store_receipt(site.database, ORDERS, KEY, MONTH))


_AGAIN = "UPDATE platform.slices SET error = NULL, message = NULL, failed_since = NULL"


def _rows(number: int) -> dict[str, object]:
    return {"rows": number, "first": [{"row": 4, "page": 1, "columns": ["sku"]}]}


def _noted(kind: str, name: str, value: object, worse: object = None) -> Case:
    """Return a warning that a load notes, and that the next load ends."""

    def note(noted: object) -> Change:
        return lambda site: site.note(name, noted)

    return Case(kind, "warning", 0, note(value), None if worse is None else note(worse))


def _count_orders(site: Site, *, added: int) -> None:
    """Add orders to a month that was never loaded, or delete them, and count them."""
    if not added:
        site.execute("DELETE FROM seller.orders")
    order = ("O", None, "Shipped", "1", None, 1, "A", None, None, "2019-01-01")
    add_rows(site.database, ORDERS, [order] * added, account=KEY, tags=("platform",))
    recount(site.database, ORDERS)


def _list_accounts(site: Site, unusable: dict[str, str]) -> None:
    store_receipt(site.database, ACCOUNTS, "default", TODAY, notes={"unusable_accounts": unusable})


CASES = [
    Case(
        "failed",
        "error",
        4,
        lambda site: site.fail(UpstreamUnavailableError("GET /sales/orders", "status 503", attempts=6)),
        lambda site: site.fail(CheckFailedError("it is another problem")),
        _AGAIN,
    ),
    Case("failed", "error", 5, lambda site: site.fail(CheckFailedError("it is odd")), end=_AGAIN),
    Case("failed", "error", 3, lambda site: site.fail(ReauthorizationRequiredError("default", "no")), end=_AGAIN),
    Case("failed", "error", 2, lambda site: site.fail(BudgetTooSmallError("default", per_day=1, needed=9)), end=_AGAIN),
    Case(
        "failed",
        "error",
        5,
        lambda site: site.make(MART, error=WarehouseError("it was not built")),
        lambda site: site.make(MART, error=WarehouseError("it is another problem")),
        lambda site: site.make(MART),
    ),
    Case("failed", "error", 5, lambda site: site.make(EXPORT, error=_WRITTEN), end=lambda site: site.make(EXPORT)),
    Case("postponed", "note", 0, lambda site: site.fail(_USED_UP), end=_AGAIN),
    Case("postponed", "warning", 0, lambda site: site.fail(_USED_UP, "run"), end=_AGAIN),
    Case("held", "error", 5, lambda site: site.hold("orders", 8), lambda site: site.hold("orders", 9)),
    Case("mismatched", "error", 5, lambda site: site.mismatch(8), lambda site: site.mismatch(7)),
    # Three days confirm the total.
    Case("mismatched", "warning", 0, lambda site: site.mismatch(8, 2, 1, 0), lambda site: site.mismatch(7)),
    Case("restated", "warning", 0, lambda site: site.note("was_settled", True, restatement=_CHANGED, currency="EUR")),
    _noted("moved", "moved", {"before": 10, "after": 12}, {"before": 9, "after": 12}),
    _noted("keyless", "null_keys", _rows(3), _rows(4)),
    _noted("duplicated", "duplicate_keys", 3),
    _noted("replaced", "replaced_text", _rows(3)),
    _noted("unreadable", "unreadable_values", _rows(3)),
    _noted("overprecise", "excess_digits", _rows(3)),
    _noted("undeclared", "unknown_fields", ["colour"], ["colour", "size"]),
    _noted("unusual", "unusual_days", {"2026-01-01": {"rows": 1, "expected": 9}}),
    Case(
        "unusable",
        "error",
        5,
        lambda site: _list_accounts(site, {"Shop 2": "it has no time zone"}),
        end=lambda site: _list_accounts(site, {}),
    ),
    Case(
        "altered",
        "error",
        5,
        f"UPDATE platform.slices SET recounted_rows = 7, rows = 5 WHERE dataset = 'orders' AND month = '{MONTH.start}'",
        "UPDATE platform.slices SET recounted_rows = 8 WHERE dataset = 'orders'",
        "UPDATE platform.slices SET recounted_rows = NULL",
    ),
    Case(
        "altered",
        "error",
        5,
        lambda site: _count_orders(site, added=3),
        lambda site: _count_orders(site, added=1),
        lambda site: _count_orders(site, added=0),
    ),
    Case("missing", "error", 5, "UPDATE platform.slices SET account = 'de-9' || load_id WHERE dataset = 'orders'"),
    # A list that was never loaded of any account was not chosen.
    Case("missing", "note", 0, "DELETE FROM platform.slices WHERE dataset = 'orders'"),
    Case(
        "incomplete",
        "error",
        5,
        f"UPDATE platform.slices SET days_read[1] = NULL WHERE dataset = 'orders' AND month = '{MONTH.start}'",
    ),
    Case("late", "error", 5, _READ.format("now() - interval '27 h'"), end=_READ.format("now()")),
    Case("refused", "error", 3, _REFUSED.format("'it was revoked'"), end=_REFUSED.format("NULL")),
    Case("expiring", "warning", 0, _ISSUED.format("now() - interval '27 d'"), end=_ISSUED.format("now()")),
    Case("retired", "note", 0, _RETIRED.format("now()"), end=_RETIRED.format("now() - interval '8 days'")),
    Case("rezoned", "warning", 0, _ZONE.format("Asia/Tokyo"), end=_ZONE.format("Europe/Berlin")),
    Case(
        "differed",
        "warning",
        0,
        "INSERT INTO platform.comparisons (stratum, dataset, account, window_start, window_end, requests, differed, "
        "load_id, started_at) VALUES "
        f"('settled', 'orders', '{KEY}', '{MONTH.start}', '{MONTH.end}', 1, true, 1, now())",
        end="UPDATE platform.comparisons SET started_at = now() - interval '8 days'",
    ),
    Case("contradicted", "error", 5, lambda site: site.make(MART, "Rows: 1."), end=lambda site: site.make(MART)),
]
if "books" in {each.name for each in capabilities()}:
    booking = (
        f"INSERT INTO platform.bookings SELECT '{KEY}', month, month, 1, '{{}}', now(), 'Ada', NULL, "
        "json_build_object('EUR', '%s'), -1 "
        f"FROM (SELECT coalesce(max(month) + interval '1 month', '{MONTH.end}') AS month FROM platform.bookings) AS own"
    )
    CASES.append(Case("unbooked", "warning", 0, booking % "5.00", end=booking % "-5.00"))
if "ledgers" in {each.name for each in capabilities()}:
    CASES.append(
        Case(
            "repeated",
            "warning",
            0,
            f"INSERT INTO platform.repeated_ledgers VALUES ('{KEY}', '{MONTH.start}', 'de-2', 5, 10, "
            "json_build_object('EUR', 120.50), now())",
            end="DELETE FROM platform.repeated_ledgers",
        )
    )


def test_every_kind_is_planted() -> None:
    assert {case.kind for case in CASES} == {kind.name for source in problem_sources() for kind in source.kinds}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {case.severity} {case.code}")
def test_everything_says_the_same_of_a_problem_until_it_ends(site: Site, case: Case) -> None:
    assert problems(site.database) == ()
    site.apply(case.plant)

    code, found = site.status()
    screen = run_here(["status"], site.variables)
    planted = problems(site.database)
    read = planted[0]
    said = (case.kind, case.severity)
    assert (code, screen.returncode) == (case.code, case.code)
    assert {kind: each["severity"] for kind, each in found.items()} == {case.kind: case.severity}
    assert {(each.kind, each.severity, each.since is not None) for each in planted} == {(*said, True)}
    synced = Synced([], {"the slice": read.message} if case.code else {})
    error = problem_of(synced, planted)
    assert (error.exit_code if error else 0) == case.code
    assert problem_of(synced, planted, "never") is None
    assert bool(to_report(planted, NOW)) == (case.severity != "note")
    assert re.search(rf"^{case.kind} ", screen.stdout, re.MULTILINE)
    command = next(line.strip() for line in screen.stdout.splitlines() if line.strip().startswith("seller-platform "))
    if command.startswith("seller-platform query"):
        listed = site.database.execute(text(shlex.split(command)[-1])).mappings().all()
        assert {(each["kind"], each["severity"]) for each in listed} == {said}
    rules = () if "." in read.dataset else checks_of(dataset_named(read.dataset))
    is_checked = case.severity != "note" and any(case.kind in rule.kinds for rule in rules)
    assert site.said() == ({(*said, "false")}, {(*said, "false")}, {_CHECKED[case.severity]} if is_checked else set())
    if read.dataset == "orders" and case.kind != "missing":
        sentences = seller_platform.read("orders", database_url=site.variables["SELLER_PLATFORM_DATABASE_URL"]).attrs
        assert any(read.message in each for each in sentences["problems"])

    assert acknowledge(site.database, case.kind, note="we know")
    assert site.said() == ({(*said, "true")}, {(*said, "true")}, {"WARN"} if is_checked else set())
    code, found = site.status()
    known = problems(site.database)
    assert (code, {each.acknowledged_by for each in known}) == (0, {found[case.kind]["acknowledged_by"]})
    assert (to_report(known, NOW), problem_of(synced, known)) == ((), None)
    if case.worsen is not None:
        site.apply(case.worsen)
        worse = problems(site.database)[0]
        assert (worse.acknowledged_by, worse.since) == (None, read.since)
    site.apply(case.end)
    assert (site.status(), site.said()) == ((0, {}), (set(), set(), set()))
    end_acknowledgements(site.database)
    site.apply(case.plant)
    assert problems(site.database)[0].acknowledged_by is None


def test_a_sentence_has_rows_and_numbers_of_the_whole(site: Site) -> None:
    cases, of = {case.kind: case for case in reversed(CASES)}, f"orders of {KEY}, {MONTH.start}..{MONTH.last_day}:"
    sent = "They are stored as they were sent."

    for sentence in (
        "2 None altered: 7 rows are stored, but the loads stored 5: another program changed the table.",
        f"0 8 held: {of} no row was read. The stored rows stay, the reading is held.",
        f"1 None mismatched: {of} the list announced 9 rows, and 8 were read.",
        f"None 3 restated: {of} settled days changed by more than 1 %: order_total EUR from 1 to 4; order_total USD "
        "from 1 to 4.",
        f"3 None keyless: 3 of 11 rows have no value in their key: row 4 of page 1 (sku) and 2 more. {sent}",
        f"3 None duplicated: 3 of 11 rows have the key of another row. {sent}",
        "None None undeclared: The upstream sent fields that are not declared: colour. Their values are kept in the "
        "column `extra`.",
    ):
        case = cases[sentence.split()[2][:-1]]
        site.apply(case.plant)
        if case.kind == "held":  # what waits for it is no failure
            site.fail(ReadingHeldError("orders", "no row was read", 1))
        (problem,) = problems(site.database)
        assert f"{problem.rows} {problem.amount} {problem.kind}: {problem.message}" == sentence
        site.apply(case.end)
        assert problems(site.database) == ()


def test_what_is_known_of_one_slice_is_not_known_of_others(site: Site) -> None:
    before, other = Window.month_of(MONTH.start - timedelta(days=1)), dataset_named("transactions")
    parts = [(ORDERS, KEY, Window.day(day)) for day in (before.start, before.last_day)]
    for dataset, account, window in [*parts, (ORDERS, "at-42", MONTH), (ORDERS, KEY, MONTH), (other, KEY, MONTH)]:
        store_receipt(site.database, dataset, account, window, rows=11, notes={"duplicate_keys": 3})

    chosen = acknowledge(site.database, "duplicated", dataset="orders", account=KEY, month=MONTH.start)
    end_acknowledgements(site.database)

    found, of_orders = slice_problems(site.database), problems(site.database)[0]
    known = [(each.dataset, each.account, each.month) for each in found if each.acknowledged_by]
    assert known == [(each.dataset, each.account, each.month) for each in chosen] == [("orders", KEY, MONTH.start)]
    assert (len(found), of_orders.dataset, of_orders.slices, of_orders.owners, of_orders.rows) == (5, "orders", 2, 2, 9)
    assert (of_orders.accounts, of_orders.months) == ([KEY, KEY, "at-42"], [before.start, before.start, MONTH.start])
    assert (of_orders.first_month, of_orders.last_month) == (before.start, MONTH.start)
    assert of_orders.since == min(each.since for each in found if each.since)
    assert len(slice_problems(site.database, ["orders"], accounts=[KEY], months=[MONTH.start])) == 1
    for month, days in ((MONTH.start, 2), (before.start, 1)):
        acknowledge(
            site.database, "duplicated", dataset="orders", account=KEY, month=month, until=NOW.date() + days * DAY
        )
    assert problems(site.database)[-1].acknowledged_until == NOW.date() + DAY
    site.execute("UPDATE platform.accounts SET retired_at = now()")
    left = slice_problems(site.database)
    assert [(each.kind, each.account) for each in left] == [("duplicated", "at-42"), ("retired", KEY)]


def test_problems_of_one_kind_and_slice_are_acknowledged_together(site: Site) -> None:
    site.make(MART, "Rows: 1.", "Rows: 2.")

    before = site.status()[0]
    known = run_here(["acknowledge", "contradicted"], site.variables)

    assert (before, known.returncode, site.status()[0]) == (5, 0, 0), known.stderr
    assert "2 problems are acknowledged" in known.stdout + known.stderr


def test_sync_and_status_end_with_the_same_code(site: Site) -> None:
    def codes(*words: str) -> list[int]:
        options = ("error", "warning", "never")
        return [run_here([*words, "--fail-on", each], site.variables).returncode for each in options]

    for kind, expected in {"": [0, 0, 0], "keyless": [0, 5, 0], "altered": [5, 5, 0], "failed": [4, 4, 0]}.items():
        for case in [each for each in CASES if each.kind == kind][:1]:
            site.apply(case.plant)

        assert codes("sync", "--dataset", "warehouse_stock") == codes("status") == expected, kind


def test_errors_come_first_by_their_money_and_are_never_left_out(site: Site) -> None:
    site.note("was_settled", True, restatement={"order_total EUR": {"before": 0, "after": 7_000}}, currency="EUR")
    held = {
        "sales_by_product": 2,
        "transactions": 10,
        "orders": 900,
        "daily_product_sales": -500,
        "sales_by_date": None,
    }
    for name, amount in held.items():
        site.hold(name, amount, currency="JPY" if name == "transactions" else "EUR")  # 10 JPY are not more than 2 EUR
    site.make(MART, error=WarehouseError("it was not built"))

    seen, found = show(["status"], site.variables), problems(site.database)

    assert [(each.severity, each.dataset, each.amount) for each in found] == [
        ("error", "orders", 900),
        ("error", "daily_product_sales", -500),
        ("error", "sales_by_product", 2),
        ("error", "sales_by_date", None),
        ("error", "transactions", 10),
        ("error", "marts.account_profit_daily", None),
        ("warning", "orders", 7_000),
    ]
    assert re.findall(r"^(?:held|failed|restated) +(\S+) of ", seen.text, re.MULTILINE) == [
        each.dataset for each in found if each.severity == "error"
    ]
    assert "More (restated): `seller-platform status --all`" in seen.text
    assert len(seen.lines) > 24  # the errors alone need more


def test_what_is_acknowledged_until_a_day_counts_after_it(site: Site) -> None:
    site.apply(CASES[1].plant)
    words = ["acknowledge", "failed", "orders", KEY, "--month", f"{MONTH.start:%Y-%m}", "--until", f"{date.max}"]

    document = json.loads(run_here([*words, "--json"], site.variables).stdout)
    code, found = site.status()
    site.execute("UPDATE platform.acknowledgements SET until = current_date")
    assert site.status()[0] == 0
    site.execute("UPDATE platform.acknowledgements SET until = current_date - 1")

    assert document == {
        "kind": "failed",
        "until": f"{date.max}",
        "acknowledged": [{"dataset": "orders", "account": KEY, "month": f"{MONTH.start}"}],
    }
    assert (code, found["failed"]["acknowledged_until"], site.status()[0]) == (0, f"{date.max}", 5)
    refused = run_here(["acknowledge", "odd"], site.variables)
    assert refused.returncode == 2
    assert "there is no problem 'odd'; what is wrong now is failed." in refused.stderr


def test_a_note_that_is_known_is_not_known_as_an_error(site: Site) -> None:
    site.execute("UPDATE platform.accounts SET first_seen_at = now()")
    site.execute("UPDATE platform.slices SET account = 'de-9' || load_id WHERE dataset = 'orders'")
    known = acknowledge(site.database, "missing")
    before = site.status()
    site.execute("UPDATE platform.accounts SET first_seen_at = now() - interval '27 hours'")
    code, found = site.status()

    assert (len(known), before[0], before[1]["missing"]["severity"]) == (1, 0, "note")
    assert before[1]["missing"]["acknowledged_by"] is not None
    assert (code, found["missing"]["acknowledged_by"]) == (5, None)


def test_a_connection_without_a_grant_is_shown_and_ends_with_its_code(site: Site) -> None:
    site.execute("DELETE FROM platform.grants")

    screen, (code, found) = run_here(["status"], site.variables), site.status()

    assert (screen.returncode, code, [*found]) == (3, 3, ["refused"])
    assert "there is no grant for connection 'default'" in screen.stdout


def test_an_altered_slice_is_no_loaded_one_of_the_map(site: Site) -> None:
    site.execute("UPDATE platform.slices SET recounted_rows = 7 WHERE dataset = 'orders'")

    shown = json.loads(run_here(["status", "--json"], site.variables).stdout)["months"]

    assert {shown[KEY][f"{MONTH.start:%Y-%m}"]} == {"altered"}


@pytest.mark.parametrize(("days", "kinds"), [(0, ["failed"]), (2, [])])
def test_a_folder_of_exports_that_is_not_tried_any_more_leaves_nothing(site: Site, days: int, kinds: list[str]) -> None:
    site.make(EXPORT, error=_WRITTEN)
    site.execute("UPDATE platform.derived_partitions SET tried_at = now() - :days * interval '1 day'", days=days)

    assert [each.kind for each in problems(site.database)] == kinds
