"""`seller-platform sync`: loads the API's lists and costs into PostgreSQL, through Dagster."""

import gc
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import click

from seller_platform.cli.installation import Installation, open_served_installation, open_stored_installation
from seller_platform.cli.load_plan import PlanDocument, show_plan
from seller_platform.cli.output import Document, Outcome, Output, ShowProgress, fail, json_option
from seller_platform.cli.terminal.layout import TableColumn
from seller_platform.cli.terminal.months import Month
from seller_platform.contract import DATASETS, REFRESHED, Dataset, Window, dataset_named
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.loads import CountVerdict
from seller_platform.counts import count_of
from seller_platform.errors import (
    CheckFailedError,
    NotConnectedError,
    SellerPlatformError,
    SlicesFailedError,
    UnknownAccountError,
    unknown_dataset,
)
from seller_platform.warehouse.connections.accounts import account_titles, accounts, accounts_named, connections
from seller_platform.warehouse.loads.history_start import (
    extend_history,
    history_start_in,
    keep_history_start,
    months_of_history,
)
from seller_platform.warehouse.loads.receipts import count_loads, receipts_of_run
from seller_platform.warehouse.loads.slices import Receipt

if TYPE_CHECKING:
    from seller_platform.ingest.loads.requested_slices import LoadRequest
    from seller_platform.orchestration.automation.backfill import LoadPlan

_COLUMNS = (
    TableColumn("slices", rank=2),
    "rows",
    TableColumn("announced", rank=4),
    "verdict",
    TableColumn("changed", rank=3),
    TableColumn("seconds", rank=1),
)


class LoadedSlices(Document, frozen=True):
    """What was loaded of a dataset and an account.

    Attributes:
        rows: The rows of all slices.
        announced: The sum of the announced totals; null if any list announced none.
        verdict: The worst of the slices.
        changed: How many slices changed.
    """

    dataset: str
    account: str
    slices: int
    rows: int
    announced: int | None
    verdict: CountVerdict
    changed: int
    seconds: float


class SyncDocument(Outcome, frozen=True):
    """What was loaded.

    Attributes:
        not_offered: Messages about endpoints that the upstream does not have.
    """

    loads: list[LoadedSlices]
    not_offered: list[str]


@dataclass(frozen=True)
class SliceOptions:
    """The options that choose slices; None stands for everything, or for what may have changed."""

    accounts: Sequence[str] | None = None
    datasets: Sequence[str] | None = None
    first_month: date | None = None
    last_month: date | None = None
    full: bool = False

    @property
    def whole(self) -> bool:
        """Whether months are read as a whole."""
        return self.full or self.first_month is not None or self.last_month is not None


@dataclass(frozen=True)
class Synced:
    """The result of a sync: receipts, failures and the exit code.

    Attributes:
        not_offered: Messages about endpoints that the upstream does not have.
        titles: The titles of the accounts, by key.
    """

    receipts: list[Receipt]
    failures: dict[str, str]
    exit_code: int = 0
    not_offered: frozenset[str] = frozenset()
    titles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SyncScope:
    """The datasets to read, the first day of history, and the months to read as a whole."""

    datasets: Sequence[Dataset]
    since: date
    months: Sequence[Window]


@click.command()
@click.option(
    "--account",
    "chosen_accounts",
    multiple=True,
    metavar="NAME",
    help="Only the account of this key or title; may be repeated.",
)
@click.option("--dataset", "chosen_datasets", multiple=True, metavar="NAME", help="Only this dataset; may be repeated.")
@click.option(
    "--from",
    "first_month",
    type=Month(),
    help="First month to read as a whole. History begins with it unless it began before.",
)
@click.option("--to", "last_month", type=Month(), help="Last month to read as a whole.")
@click.option("--full", is_flag=True, help="Read every month of history as a whole.")
@click.option("--plan", "only_plan", is_flag=True, help="Only say what it would take; no request is sent.")
@json_option(SyncDocument, PlanDocument)
def sync(
    *,
    chosen_accounts: tuple[str, ...],
    chosen_datasets: tuple[str, ...],
    first_month: date | None,
    last_month: date | None,
    full: bool,
    only_plan: bool,
    output: Output,
) -> None:
    """Load the API's lists and costs into PostgreSQL, through Dagster.

    Without --from, --to and --full it reads only days that are not stored yet or may have changed since. Costs take a
    request for each product. They are read once a day, unless --full or --dataset cost_periods asks for them.

    Where SELLER_API_REQUESTS_PER_DAY limits the requests of a connection, it reads what they suffice for: the newest
    days first, and last what it only reads again. --plan says before what each dataset takes, and what would be left.
    """
    selection = SliceOptions(chosen_accounts or None, chosen_datasets or None, first_month, last_month, full)
    if only_plan:
        with open_stored_installation() as installation:
            scope = plan_scope(installation, selection)
            keys = keys_of(installation, selection.accounts)
            show_plan(installation, load_request(selection, scope, keys), output)
        return
    with open_served_installation() as installation:
        synced = run_sync(installation, selection, output)
    report(output, synced, problem_of(synced))


def run_sync(installation: Installation, selection: SliceOptions, output: Output) -> Synced:
    """Discover the accounts, load the selected slices, and return the result.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
    """
    scope = _scope_of(installation, selection, _chosen_datasets(installation, selection), output)
    with _processes_for(installation, selection, scope):
        return _load(installation, selection, scope, output)


def _processes_for(
    installation: Installation, selection: SliceOptions, scope: SyncScope
) -> AbstractContextManager[object]:
    """Return a context with loading processes, if enough rows of the stored accounts will be read.

    They import their libraries while this process imports Dagster and discovers the accounts.
    """
    # Imported here because `--help` needs no HTTP.
    from seller_platform.ingest.loads.expectation import expected_rows, processes_for

    settings, database, named = installation.settings, installation.database, selection.accounts
    chosen = [key for key, title in account_titles(database).items() if named is None or {key, title} & {*named}]
    months, now = scope.months if selection.whole else None, datetime.now(UTC)
    rows = expected_rows(database, scope.datasets, chosen, now=now, since=scope.since, months=months)
    return processes_for(rows, settings, database.url)


def _load(installation: Installation, selection: SliceOptions, scope: SyncScope, output: Output) -> Synced:
    """Discover the accounts, load the selected slices of the scope, and return the result."""
    with output.progress("Starting Dagster", None), _without_collections():
        # Importing Dagster takes a second; the definitions read the environment, which `demo` sets first.
        from seller_platform.orchestration.automation.runs import PlannedRun, execute
        from seller_platform.orchestration.definitions import defs
        from seller_platform.orchestration.instance.command_runs import end_dead_runs
        from seller_platform.orchestration.instance.home import open_instance
        from seller_platform.orchestration.partitions import account_partitions

        job = defs.resolve_implicit_global_asset_job_def()

    with open_instance(installation.settings.home) as instance:
        if dead := end_dead_runs(instance):
            output.say(f"Runs of commands that were killed are marked as canceled: {dead}.")
        discovery = PlannedRun((ACCOUNTS,))
        with output.progress("Discovering the accounts", None):
            discovered = execute(discovery, job, instance)
        discovered_connections = {
            receipt.account for receipt in receipts_of_run(installation.database, discovery.run_id)
        }
        if not discovered_connections:
            _require_stored(installation, selection.accounts, discovered.failures, output)
            return Synced([], discovered.failures, discovered.exit_code, titles=account_titles(installation.database))
        readable = {each.key for each in accounts(installation.database) if each.connection in discovered_connections}
        keys = [key for key in keys_of(installation, selection.accounts) if key in readable]
        planned = _plan(installation, selection, scope, keys, account_partitions(instance))
        with (
            output.progress(f"Loading {count_of(len(keys), 'account')}", planned.slices) as show,
            _counted(installation, planned.runs, show),
        ):
            ends = [execute(run, job, instance) for run in planned.runs]
    failures = {name: problem for end in (discovered, *ends) for name, problem in end.failures.items()}
    failures |= {name: str(error) for name, error in planned.later.items()}
    receipts = [
        receipt
        for run_id in (discovery.run_id, *(end.run_id for end in ends))
        for receipt in receipts_of_run(installation.database, run_id)
    ]
    not_offered = frozenset(message for end in ends for message in end.not_offered)
    exit_code = max(each.exit_code for each in (discovered, *ends, *planned.later.values()))
    return Synced(receipts, failures, exit_code, not_offered, account_titles(installation.database))


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage within the block, and never what it leaves.

    A tenth of the time of importing Dagster is collections, and modules are no garbage.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _require_stored(
    installation: Installation, names: Sequence[str] | None, failures: Mapping[str, str], output: Output
) -> None:
    """Check that accounts of these names are stored, after a discovery that failed and may have missed new ones.

    Raises:
        RequestError: Several accounts have one of the titles.
        UnknownAccountError: Accounts are stored, and none of them has that key or title.
    """
    if not accounts(installation.database):
        return
    try:
        keys_of(installation, names)
    except UnknownAccountError:
        for problem in sorted(set(failures.values())):
            output.say(f"New accounts were not discovered: {problem}")
        raise


def _scope_of(
    installation: Installation, selection: SliceOptions, datasets: Sequence[Dataset], output: Output
) -> SyncScope:
    """Return what to read, and extend the history if the first month is earlier.

    Definitions have the partitions that history has when they load, so this comes first.

    Raises:
        RequestError: There are no such months, or they are too early.
    """
    since = history_start_in(installation.database, installation.settings, selection.first_month)
    months = _months_of(selection, datasets, since)
    since = keep_history_start(installation.database, since)
    if months and months[0].start < since.replace(day=1):
        since = months[0].start
        extend_history(installation.database, since)
        output.say(
            f"History begins with {since:%Y-%m} now, for every account: refreshes load these months too. "
            "A Dagster UI that runs shows them after *Reload* of the code location."
        )
    return SyncScope(datasets, since, months)


def plan_scope(installation: Installation, selection: SliceOptions) -> SyncScope:
    """Return what a sync would read, and change nothing.

    Raises:
        NotConnectedError: No connection is authorised yet.
        RequestError: The selection names something that does not exist, or months in the wrong order.
    """
    datasets = _chosen_datasets(installation, selection)
    since = history_start_in(installation.database, installation.settings, selection.first_month)
    months = _months_of(selection, datasets, since)
    return SyncScope(datasets, min(since, months[0].start) if months else since, months)


def _chosen_datasets(installation: Installation, selection: SliceOptions) -> Sequence[Dataset]:
    datasets = datasets_named(selection.datasets)
    if not connections(installation.database):
        raise NotConnectedError
    return datasets


def _months_of(selection: SliceOptions, datasets: Sequence[Dataset], since: date) -> list[Window]:
    is_dated = any(dataset.is_dated for dataset in datasets)
    return months_of(selection, since) if selection.whole and is_dated else []


def _plan(
    installation: Installation,
    selection: SliceOptions,
    scope: SyncScope,
    keys: Sequence[str],
    listed: Sequence[str],
) -> "LoadPlan":
    """Return the runs that load the selected slices of these accounts."""
    # Imported here because Dagster takes a second to import, which `--help` does not need.
    from seller_platform.orchestration.automation.backfill import plan_load

    settings = installation.settings
    return plan_load(
        installation.database,
        load_request(selection, scope, keys),
        now=datetime.now(UTC),
        listed=listed,
        adaptive=settings.lookback == "adaptive",
        requests_per_day=settings.requests_per_day,
    )


def load_request(selection: SliceOptions, scope: SyncScope, keys: Sequence[str]) -> "LoadRequest":
    """Return the request for the selected slices of these accounts."""
    # Imported here because `--help` does not need it.
    from seller_platform.ingest.loads.requested_slices import LoadRequest

    is_asked_for = selection.full or selection.datasets is not None
    months = scope.months if selection.whole else None
    return LoadRequest(scope.datasets, keys, scope.since, months, lookups_too=is_asked_for)


def report(
    output: Output,
    synced: Synced,
    error: SellerPlatformError | None,
    document_type: type[SyncDocument] = SyncDocument,
    **more: object,
) -> None:
    """Print the loads by account and dataset, and end with the error, if any.

    Args:
        document_type: The document of `--json`.
        more: What it has beside the loads.
    """
    groups: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in synced.receipts:
        groups[(receipt.dataset, receipt.account)].append(receipt)
    loads = [_loaded(dataset, account, group) for (dataset, account), group in groups.items()]
    order = [dataset.name for dataset in DATASETS]
    ordered = sorted(loads, key=lambda each: (each.dataset != ACCOUNTS.name, each.account, order.index(each.dataset)))
    if ordered:
        output.table_by_account("Loaded", _COLUMNS, ordered, synced.titles)
    for message in sorted(synced.not_offered):
        output.say(message)
    document = document_type(loads=loads, not_offered=sorted(synced.not_offered), **more)
    if error is not None:
        fail(error, as_json=output.as_json, document=document)
    output.document(document)


def _loaded(dataset: str, account: str, receipts: Sequence[Receipt]) -> LoadedSlices:
    totals = [receipt.announced for receipt in receipts if receipt.announced is not None]
    return LoadedSlices(
        dataset=dataset,
        account=account,
        slices=len(receipts),
        rows=sum(receipt.rows for receipt in receipts),
        announced=sum(totals) if len(totals) == len(receipts) else None,
        verdict=CountVerdict.worst({receipt.verdict for receipt in receipts}),
        changed=sum(receipt.changed for receipt in receipts),
        seconds=round(sum(receipt.seconds for receipt in receipts), 2),
    )


def problem_of(synced: Synced) -> SellerPlatformError | None:
    """Return an error if slices failed, row counts differ or keys are missing; else None."""
    if synced.failures:
        return SlicesFailedError(synced.failures, synced.exit_code, any_loaded=bool(synced.receipts))
    problems = []
    if wrong := [
        f"{each.dataset} of {each.account}, {each.window}: {count_of(each.rows, 'row')}, {each.announced} announced"
        for each in synced.receipts
        if each.verdict is CountVerdict.MISMATCH
    ]:
        problems.append(
            f"row counts do not match the announced totals: {'; '.join(wrong)}. Read those months again with "
            "`seller-platform sync --from ... --to ...`; if they still differ, report it to the upstream"
        )
    if unnamed := [
        f"{each.dataset} of {each.account}, {each.window}: {count_of(each.notes['null_keys']['rows'], 'row')}"
        for each in synced.receipts
        if each.notes and "null_keys" in each.notes
    ]:
        problems.append(
            f"rows have no value in their key: {'; '.join(unnamed)}. They are stored, and the check keys_are_present "
            "names the first; report it to the upstream"
        )
    return CheckFailedError(". ".join(problems)) if problems else None


def datasets_named(names: Sequence[str] | None, *, words: Sequence[str] = ()) -> tuple[Dataset, ...]:
    """Return the datasets of these names; without names, all lists and the costs.

    Args:
        words: Other names that are allowed, and are left out of the result.

    Raises:
        RequestError: A name is none of these.
    """
    names_allowed = [*(dataset.name for dataset in REFRESHED), *words]
    for name in names or ():
        if name not in names_allowed:
            raise unknown_dataset(name, names_allowed)
    return tuple(dataset_named(name) for name in names if name not in words) if names else REFRESHED


def keys_of(installation: Installation, names: Sequence[str] | None) -> list[str]:
    """Return the keys of the accounts with these keys or titles; without names, those of every account.

    Raises:
        RequestError: Several accounts have one of the titles.
        UnknownAccountError: No active account has that key or title.
    """
    return [each.key for each in accounts_named(installation.database, names or ())]


def months_of(selection: SliceOptions, history_start: date) -> list[Window]:
    """Return the selected months; without a first one, from the start of history on.

    Raises:
        RequestError: There are none, or some are earlier than history may begin.
    """
    return months_of_history(selection.first_month, selection.last_month, history_start)


@contextmanager
def _counted(installation: Installation, planned: Sequence[Any], show: ShowProgress) -> Iterator[None]:
    """Show how many receipts the runs have written, until the block ends."""
    run_ids = [run.run_id for run in planned]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.3):
            show(count_loads(installation.database, run_ids))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
