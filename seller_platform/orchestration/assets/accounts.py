"""Discovery: the asset of the accounts, and the sensor that reads them each hour.

The sensor reads the accounts of every connection and adds partitions within its tick: an hour without changes costs two
requests and no run. Nothing is ever removed: a missing account is retired in the registry, and its rows, its partitions
and their history stay.

"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date, datetime, timedelta

import dagster as dg
import msgspec

from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import Clock, is_past, utc_now
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import (
    NotConnectedError,
    ReadingHeldError,
    RequestsUsedUpError,
    SellerPlatformError,
    UpstreamUnavailableError,
)
from seller_platform.ingest.loads.accounts import discover
from seller_platform.orchestration.account_names import AccountNames
from seller_platform.orchestration.assets.events import dataset_asset, load_event, outputs
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.assets.reporting import report_after_step, report_checks
from seller_platform.orchestration.partitions import account_partitions, add_accounts
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.warehouse.connections.accounts import KnownAccount, KnownConnection, accounts, connections
from seller_platform.warehouse.loads.receipts import keep_reported, newest_receipts
from seller_platform.warehouse.loads.slices import Receipt
from seller_platform.warehouse.postgres.database import Database

_ASK_EVERY, _ASK_AT_LEAST_EVERY = timedelta(hours=1), timedelta(hours=11)
# A connection with a budget is asked so seldom that discovery takes about a twentieth of it.
_DISCOVERY_REQUESTS, _DISCOVERY_SHARE = 2, 20
_ASK_AGAIN_AFTER_FAILURE = timedelta(minutes=5)
_SECONDS_BETWEEN_TICKS = 60
# Dagster ends an evaluation after 60 s.
_TICK_SECONDS = 40.0
_REQUEST_SECONDS = 10.0
_SECOND_READING_SECONDS = 15.0
_CONNECTIONS_AT_ONCE = 4


def discovery_definitions(
    *, clock: Clock = utc_now, tick_seconds: float = _TICK_SECONDS, placement: Placement = WHOLE
) -> dg.Definitions:
    """Return the asset and the sensor of discovery, without the resources `warehouse` and `seller_api`."""
    sensor = _discovery_sensor(clock, tick_seconds, placement)
    return dg.Definitions(assets=[accounts_asset(placement)], sensors=[sensor])


def accounts_asset(placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that discovers the accounts of every connection and adds their partitions."""

    @dataset_asset(ACCOUNTS, date.max, placement)  # it has no partitions
    def land(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        by_name = {connection.name: connection for connection in placement.chosen(connections(warehouse.database))}

        def read(name: str) -> tuple[Sequence[KnownAccount], Receipt]:
            return discover(
                seller_api.api,
                warehouse.database,
                by_name[name],
                run_id=context.run.run_id,
                second_reading_seconds=warehouse.settings.second_reading_seconds,
            )

        loop = PartitionLoop(context.log, "connection ")
        if not by_name:
            loop.add("default", NotConnectedError())
        loaded: list[Receipt] = []
        for _, (listed, receipt) in loop.attempt([*by_name], read):
            readable = [account.key for account in placement.chosen(listed)]
            add_accounts(context.instance, readable, placement.accounts_name)
            loaded.append(receipt)
        yield from _events(warehouse.database, loaded, placement)
        reasons = "; ".join(f"{name}: {error}" for name, error in loop.failures.items())
        yield from outputs(context)
        report_after_step(context, warehouse.database, placement, ACCOUNTS)
        loop.fail(f"{count_of(len(loop.failures), 'connection')} did not give accounts. {reasons}")

    return land


class _SensorState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cursor of the sensor: the time of the next request of each connection, as an ISO timestamp."""

    due: dict[str, str] = msgspec.field(default_factory=dict)

    def is_due(self, connection: str, now: datetime, every: timedelta) -> bool:
        """Return whether to ask a connection, which is asked in such intervals."""
        due = self.due.get(connection)
        return due is None or is_past(datetime.fromisoformat(due), now, every)

    def after(self, names: Collection[str], answers: "_Answers", now: datetime, every: timedelta) -> "_SensorState":
        """Return the state after these answers, for the connections that exist now.

        Args:
            every: The interval in which a connection is asked.
        """
        due = {
            **self.due,
            **dict.fromkeys(answers.receipts, (now + every).isoformat()),
            **{name: (now + _pause_after(error, every)).isoformat() for name, error in answers.failures.items()},
        }
        return _SensorState({name: at for name, at in due.items() if name in names})


@dataclass(frozen=True)
class _Answers:
    """The loads and the errors of the connections that were asked in time."""

    receipts: Mapping[str, Receipt]
    failures: Mapping[str, SellerPlatformError]


def _discovery_sensor(clock: Clock, tick_seconds: float, placement: Placement) -> dg.SensorDefinition:
    @dg.sensor(
        name=placement.name_of("discover_accounts"),
        description="Reads the accounts of every connection each hour, adds the partitions of new ones, retires "
        "missing ones, and reports which connections must be authorised again.",
        target=dg.AssetSelection.assets(placement.asset_key(ACCOUNTS)),
        minimum_interval_seconds=_SECONDS_BETWEEN_TICKS,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def discover_accounts(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> dg.SensorResult:
        now, instance, database = clock(), context.instance, warehouse.database
        stored = msgspec.json.decode(context.cursor or "{}", type=_SensorState)
        per_day, every = warehouse.settings.requests_per_day, _ASK_EVERY
        if per_day is not None:
            share = timedelta(days=1) * _DISCOVERY_REQUESTS * _DISCOVERY_SHARE / per_day
            every = min(max(share, _ASK_EVERY), _ASK_AT_LEAST_EVERY)
        by_name = {connection.name: connection for connection in placement.chosen(connections(database))}
        due = sorted(
            (name for name in by_name if stored.is_due(name, now, every)), key=lambda name: stored.due.get(name, "")
        )
        answers = _ask([by_name[name] for name in due], seller_api, database.url, tick_seconds)
        for name, error in answers.failures.items():
            context.log.warning("connection %s: %s", name, error)
        for event in _events(database, [*answers.receipts.values()], placement):
            instance.report_runless_asset_event(event)
        # Time and other runs change what is true of grants.
        report_checks(instance, database, placement, [ACCOUNTS])
        # Other processes discover accounts, too.
        partitions = set(account_partitions(instance, placement.accounts_name))
        listed = placement.chosen(accounts(database))
        new_accounts = [account.key for account in listed if account.key not in partitions]
        requests = [placement.account_partitions.build_add_request(new_accounts)] if new_accounts else []
        return dg.SensorResult(
            skip_reason=f"{len(answers.receipts)} of {count_of(len(by_name), 'connection', 'was')} asked, "
            f"{len(answers.failures)} gave no answer; {count_of(len(new_accounts), 'account', 'is')} new",
            dynamic_partitions_requests=requests,
            cursor=msgspec.json.encode(stored.after(by_name, answers, now, every)).decode(),
        )

    return discover_accounts


def _pause_after(error: SellerPlatformError, every: timedelta) -> timedelta:
    """Return after how long a connection is asked again; a held list is not a failure to answer."""
    if isinstance(error, RequestsUsedUpError):
        return _ASK_EVERY
    return every if isinstance(error, ReadingHeldError) else _ASK_AGAIN_AFTER_FAILURE


def _ask(
    chosen: Sequence[KnownConnection], seller_api: SellerApiResource, url: str, timeout_seconds: float
) -> _Answers:
    """Read the accounts of connections in threads, until the timeout.

    Each thread has a database and an API of its own, so that a connection that hangs stops no other. It goes on after
    the tick has ended, and stores what it reads in the end.
    """

    def ask(connection: KnownConnection) -> Receipt:
        with Database(url) as database, ExitStack() as opened:

            def api(name: str) -> SellerApi:
                return opened.enter_context(seller_api.open_api(name, database)).impatient(_REQUEST_SECONDS)

            pause = min(seller_api.warehouse.settings.second_reading_seconds, _SECOND_READING_SECONDS)
            return discover(api, database, connection, run_id=None, second_reading_seconds=pause)[1]

    threads = ThreadPoolExecutor(_CONNECTIONS_AT_ONCE, thread_name_prefix="discover")
    futures = {connection.name: threads.submit(ask, connection) for connection in chosen}
    wait(futures.values(), timeout=timeout_seconds)
    threads.shutdown(wait=False, cancel_futures=True)
    receipts: dict[str, Receipt] = {}
    failures: dict[str, SellerPlatformError] = {}
    for name, future in futures.items():
        if future.cancelled():
            continue
        if not future.done():
            reason = f"no answer within {count_of(timeout_seconds, 'second')}"
            failures[name] = UpstreamUnavailableError(f"GET {ACCOUNTS.path}", reason, attempts=1)
            continue
        try:
            receipts[name] = future.result()
        except SellerPlatformError as error:
            failures[name] = error
    return _Answers(receipts, failures)


def _events(database: Database, loaded: Sequence[Receipt], placement: Placement) -> Iterator[dg.AssetMaterialization]:
    """Yield a materialization for each load, with the rows of all connections."""
    names = AccountNames(database)
    read = {connection.name for connection in placement.chosen(connections(database))} if loaded else set()
    rows = sum(receipt.rows for name, receipt in newest_receipts(database, ACCOUNTS).items() if name in read)
    for receipt in loaded:
        event = load_event(receipt, placement, names)
        yield event.with_metadata({**event.metadata, "connection": receipt.account, "dagster/row_count": rows})
    keep_reported(database, [receipt.id for receipt in loaded])
