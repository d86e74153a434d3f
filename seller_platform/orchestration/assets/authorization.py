"""The check of the connections: whether each is authorised."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from seller_platform.contract import Dataset
from seller_platform.contract.tokens import WARN_BEFORE_DEATH
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
from seller_platform.orchestration.assets.events import judged
from seller_platform.orchestration.partitions import asset_key
from seller_platform.orchestration.resources import WarehouseResource
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import GrantFacts, Grants

AUTHORIZED_CHECK = "connection_authorized"
AUTHORIZED_DOC = "Every connection has a grant that its upstream honours, and that is not about to die of disuse."


@dataclass(frozen=True)
class Denial:
    """That a connection could not be asked, where another authorisation or setting would help.

    Attributes:
        at: An ISO timestamp; a grant that is newer than this is not meant.
    """

    told: str
    at: str


def denials_of(failures: Mapping[str, SellerPlatformError], now: datetime) -> dict[str, Denial]:
    """Return, of connections that could not be asked, those that are not authorised, with the reason."""
    return {name: Denial(str(error), now.isoformat()) for name, error in failures.items() if _is_denial(error)}


def _is_denial(error: SellerPlatformError) -> bool:
    if isinstance(error, RequestRefusedError):
        return error.status in {401, 403}
    return isinstance(error, ReauthorizationRequiredError | NotConnectedError | TokenRefusedError | SettingsError)


def judge_connections(warehouse: WarehouseResource, denials: Mapping[str, Denial], now: datetime) -> Judgement:
    """Return whether all connections are authorised, by their grants and by what they answered when last asked."""
    facts = {each.connection: each for each in Grants(warehouse.database, warehouse.box).facts()}
    names = [each.name for each in connections(warehouse.database)]
    refused = {name: told for name in names if (told := _refusal(name, facts.get(name), denials.get(name)))}
    if refused:
        return Judgement(passed=False, description=" ".join(refused.values()), metadata=refused)
    dying = {
        name: _death(facts[name]) for name in names if name in facts and now >= facts[name].dies_at - WARN_BEFORE_DEATH
    }
    if dying:
        return Judgement(
            passed=False,
            description=" ".join(dying.values()),
            severity=dg.AssetCheckSeverity.WARN,
            metadata=dying,
        )
    return Judgement(passed=True, description=f"The grants of {len(names)} connections are honoured.")


def _refusal(name: str, grant: GrantFacts | None, denial: Denial | None) -> str | None:
    """Return why a connection is not authorised, with the command to run; None if it is."""
    if grant is None:
        return f"{NotConnectedError(name)}."
    if grant.refused is not None:
        return f"{ReauthorizationRequiredError(name, grant.refused)}."
    if denial is None or grant.issued_at > datetime.fromisoformat(denial.at):
        return None
    return f"Connection {name!r}: {denial.told}. Mend that, or run `{connect_command(name)}`."


def _death(grant: GrantFacts) -> str:
    return (
        f"The grant of connection {grant.connection!r} was last refreshed on {grant.issued_at:%Y-%m-%d} and is not "
        f"honoured after {grant.dies_at:%Y-%m-%d}. Let a refresh run before, or run "
        f"`{connect_command(grant.connection)}`."
    )


def authorized_evaluation(
    instance: dg.DagsterInstance, dataset: Dataset, judgement: Judgement
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(dataset),
        check_name=AUTHORIZED_CHECK,
        passed=judgement.passed,
        severity=judgement.severity,
        description=judgement.description,
        metadata=judgement.metadata,
        target_materialization_data=judged(instance, asset_key(dataset), None),
    )
