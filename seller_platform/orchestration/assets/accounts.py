"""Discovery: the asset of the accounts, and the sensor that has it read each hour.

Nothing is ever removed: a missing account is retired in the registry, and its rows, its partitions and their history
stay.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta

import dagster as dg

from seller_platform.client.http.api import SellerApi
from seller_platform.clocks import is_past, utc_now
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.counts import count_of
from seller_platform.errors import NotConnectedError, ReadingHeldError, RequestsUsedUpError
from seller_platform.ingest.loads.accounts import discover
from seller_platform.orchestration.assets.events import dataset_asset, load_event, outputs
from seller_platform.orchestration.assets.reporting import report_after_step, report_checks
from seller_platform.orchestration.failures import PartitionLoop
from seller_platform.orchestration.partitions import add_accounts
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.orchestration.tags import CHANGED, FIRST_TAGS, REFRESH_TAG, under_way
from seller_platform.warehouse.connections.accounts import KnownConnection, accounts, connections
from seller_platform.warehouse.loads.receipts import Receipt, keep_reported, last_tries, newest_receipts
from seller_platform.warehouse.postgres.database import Database

_EVERY, _AT_LEAST_EVERY = timedelta(hours=1), timedelta(hours=11)
# A connection with a budget is asked so seldom that discovery takes about a twentieth of it.
_DISCOVERY_REQUESTS, _DISCOVERY_SHARE = 2, 20
_AGAIN_AFTER_FAILURE = timedelta(minutes=5)
_REQUEST_SECONDS = 10.0


def accounts_asset(placement: Placement = WHOLE) -> dg.AssetsDefinition:
    """Return the asset that discovers the accounts of every connection and adds their partitions.

    A run of the sensor reads only the connections that are due, and is patient with none of them. It does not fail:
    the checks name the connections that gave no accounts, and the next run asks them again.
    """

    @dataset_asset(ACCOUNTS, date.max, placement)  # it has no partitions
    def land(
        context: dg.AssetExecutionContext, warehouse: WarehouseResource, seller_api: SellerApiResource
    ) -> Iterator[object]:
        database, is_of_sensor = warehouse.database, context.run.tags.get(REFRESH_TAG) == CHANGED
        chosen = {each.name: each for each in placement.chosen(connections(database))}

        def api(name: str) -> SellerApi:
            opened = seller_api.api(name)
            return opened.impatient(_REQUEST_SECONDS) if is_of_sensor else opened

        def read(name: str) -> Receipt:
            pause = warehouse.settings.second_reading_seconds
            return discover(api, database, chosen[name], run_id=context.run.run_id, second_reading_seconds=pause)[1]

        loop = PartitionLoop(context.log, placement, "connection ")
        if not chosen:
            loop.add("default", NotConnectedError())
        names = _due(database, [*chosen.values()], warehouse) if is_of_sensor else [*chosen]
        loaded = [receipt for _, receipt in loop.attempt(names, read)]
        _add_partitions(context.instance, database, placement)
        known = {connection.name for connection in placement.chosen(connections(database))} if loaded else set()
        rows = sum(each.rows for name, each in newest_receipts(database, ACCOUNTS).items() if name in known)
        for receipt in loaded:
            event = load_event(receipt, placement, warehouse.names)
            yield event.with_metadata({**event.metadata, "connection": receipt.account, "dagster/row_count": rows})
        keep_reported(database, [receipt.id for receipt in loaded])
        yield from outputs(context)
        report_after_step(context, database, placement, ACCOUNTS)
        if not is_of_sensor:
            reasons = "; ".join(f"{name}: {error}" for name, error in loop.failures.items())
            loop.fail(f"{count_of(len(loop.failures), 'connection')} did not give accounts. {reasons}")

    return land


def discovery_definitions(placement: Placement = WHOLE) -> dg.Definitions:
    """Return the asset and its sensor, without the resources `warehouse` and `seller_api`."""
    name = placement.name_of("discover_accounts")

    @placement.sensor(
        "discover_accounts",
        "Has the accounts of every connection read each hour, which adds the partitions of new ones and "
        "retires missing ones, and reports which connections must be authorised again.",
        seconds=60,
        target=dg.AssetSelection.assets(placement.asset_key(ACCOUNTS)),
    )
    def discover_accounts(
        context: dg.SensorEvaluationContext, warehouse: WarehouseResource
    ) -> dg.RunRequest | dg.SkipReason:
        database = warehouse.database
        _add_partitions(context.instance, database, placement)  # other processes discover accounts, too
        due = _due(database, placement.chosen(connections(database)), warehouse)
        if due and not context.instance.get_runs_count(under_way(tags={"dagster/sensor_name": name})):
            return dg.RunRequest(
                asset_selection=[placement.asset_key(ACCOUNTS)],
                asset_check_keys=[],  # the step reports them
                tags={REFRESH_TAG: CHANGED, **FIRST_TAGS},
            )
        # Time and other runs change what is true of grants.
        report_checks(context.instance, database, placement, [ACCOUNTS])
        return dg.SkipReason(f"a run reads {', '.join(due)}" if due else "no connection is due")

    return dg.Definitions(assets=[accounts_asset(placement)], sensors=[discover_accounts])


def _add_partitions(instance: dg.DagsterInstance, database: Database, placement: Placement) -> None:
    readable = [account.key for account in placement.chosen(accounts(database))]
    add_accounts(instance, readable, placement.accounts_name)


def _due(database: Database, chosen: Sequence[KnownConnection], warehouse: WarehouseResource) -> list[str]:
    """Return the connections to ask for their accounts, those that wait the longest first."""
    per_day, every = warehouse.settings.requests_per_day, _EVERY
    if per_day is not None:
        share = timedelta(days=1) * _DISCOVERY_REQUESTS * _DISCOVERY_SHARE / per_day
        every = min(max(share, _EVERY), _AT_LEAST_EVERY)
    # A held list is not a failure to answer.
    pauses = {None: every, ReadingHeldError.__name__: every, RequestsUsedUpError.__name__: _EVERY}
    now, tried, never = utc_now(), last_tries(database, ACCOUNTS), datetime.min.replace(tzinfo=UTC)
    due = {}
    for name in (each.name for each in chosen):
        at, error = tried.get(name, (never, None))
        pause = pauses.get(error, _AGAIN_AFTER_FAILURE)
        if is_past(at + pause, now, pause):
            due[name] = at
    return sorted(due, key=lambda name: due[name])
