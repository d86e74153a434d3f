"""What a component tells those who contribute definitions to it, and what they contribute."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import date

import dagster as dg

from seller_platform.contract import Dataset
from seller_platform.orchestration.automation.following import Follower
from seller_platform.orchestration.placement import Placement
from seller_platform.settings import Settings
from seller_platform.warehouse.derived.declaration import Mart


@dataclass(frozen=True)
class Mounted:
    """A component.

    Attributes:
        datasets: What it reads.
        extras: What it brings beside them, by the names that its attribute `datasets` may have, too.
        alerts: Whether it sends alerts; None for what the settings say.
    """

    datasets: Sequence[Dataset]
    extras: Collection[str]
    alerts: bool | None
    history_start: date
    placement: Placement
    settings: Settings


@dataclass(frozen=True)
class Contribution:
    """What a capability contributes to a component.

    Attributes:
        followers: Assets whose partitions follow their inputs.
        daily: Steps of the job `daily`.
        marts: Those among the assets, whose checks the component reports.
    """

    definitions: dg.Definitions = field(default_factory=dg.Definitions)
    followers: Sequence[Follower] = ()
    daily: Sequence[dg.OpDefinition] = ()
    marts: Sequence[Mart] = ()
