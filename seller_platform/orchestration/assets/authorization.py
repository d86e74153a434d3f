"""The check that every connection is authorised."""

from collections.abc import Mapping
from datetime import datetime

import dagster as dg
import msgspec

from seller_platform.clocks import utc_now
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.contract.tokens import WARN_BEFORE_DEATH
from seller_platform.counts import count_of
from seller_platform.errors import (
    NotConnectedError,
    ReauthorizationRequiredError,
    RequestRefusedError,
    SellerPlatformError,
    SettingsError,
    TokenRefusedError,
    connect_command,
)
from seller_platform.orchestration.assets.checks import Judgement
from seller_platform.orchestration.placement import WHOLE, Placement
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import Grants

AUTHORIZED_CHECK = "connection_authorized"
_EXECUTIONS = 5  # the newest one may be that of the present run, which has only begun
AUTHORIZED_DOC = "Every connection has a grant that its upstream honours, and that is not about to expire unused."


class Denial(msgspec.Struct, frozen=True, rename={"reason": "told"}):
    """An error of a connection that another authorisation or other settings can resolve.

    Attributes:
        at: The time of the request, as an ISO timestamp; the denial does not apply to a newer grant.
    """

    reason: str
    at: str


def denials_of(failures: Mapping[str, SellerPlatformError], now: datetime) -> dict[str, Denial]:
    """Return the denials among the errors of connections."""
    denials = ReauthorizationRequiredError | NotConnectedError | TokenRefusedError | SettingsError
    return {
        name: Denial(str(error), now.isoformat())
        for name, error in failures.items()
        if isinstance(error, denials) or (isinstance(error, RequestRefusedError) and error.status in {401, 403})
    }


def judge_connections(
    warehouse: WarehouseResource, denials: Mapping[str, Denial], now: datetime, placement: Placement = WHOLE
) -> Judgement:
    """Return whether all connections that are read are authorised, by their grants and their last answers."""
    grants = {grant.connection: grant for grant in Grants(warehouse.database, warehouse.box).facts()}
    names = [each.name for each in placement.chosen(connections(warehouse.database))]
    refused, expiring = {}, {}
    for name in names:
        grant, denial = grants.get(name), denials.get(name)
        if grant is None:
            refused[name] = f"{NotConnectedError(name)}."
        elif grant.refused is not None:
            refused[name] = f"{ReauthorizationRequiredError(name, grant.refused)}."
        elif denial is not None and grant.issued_at <= datetime.fromisoformat(denial.at):
            refused[name] = f"Connection {name!r}: {denial.reason}. Fix that, or run `{connect_command(name)}`."
        elif now >= grant.dies_at - WARN_BEFORE_DEATH:
            expiring[name] = (
                f"The grant of connection {name!r} was last refreshed on {grant.issued_at:%Y-%m-%d} and is not "
                f"honoured after {grant.dies_at:%Y-%m-%d}. Let a refresh run before, or run `{connect_command(name)}`."
            )
    problems = refused or expiring
    return Judgement(
        passed=not problems,
        description=" ".join(problems.values())
        or f"The grants of {count_of(len(names), 'connection', 'is')} honoured.",
        severity=dg.AssetCheckSeverity.ERROR if refused or not expiring else dg.AssetCheckSeverity.WARN,
        metadata=problems,
    )


def judge_connections_again(
    instance: dg.DagsterInstance, warehouse: WarehouseResource, placement: Placement
) -> Judgement:
    """Return whether all connections are authorised, without a request to them.

    A refusal that was reported counts until a grant is newer than the report.
    """
    judgement = judge_connections(warehouse, {}, utc_now(), placement)
    check = dg.AssetCheckKey(placement.asset_key(ACCOUNTS), AUTHORIZED_CHECK)
    history = instance.event_log_storage.get_asset_check_execution_history(check, limit=_EXECUTIONS)
    newest = next((each for each in history if isinstance(each.evaluation, dg.AssetCheckEvaluation)), None)
    evaluation = None if newest is None else newest.evaluation
    if newest is None or evaluation is None or evaluation.passed or not judgement.passed:
        return judgement
    grants = Grants(warehouse.database, warehouse.box).facts()
    if any(grant.issued_at.timestamp() > newest.create_timestamp for grant in grants):
        return judgement
    return Judgement(
        passed=False,
        description=evaluation.description or "",
        severity=evaluation.severity,
        metadata=evaluation.metadata,
    )
