"""The settings of marts."""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from seller_platform.settings import Settings, StoredPath


class MartsSettings(Settings):
    """Which rules marts have."""

    project: ClassVar[Sequence[str]] = ("profit_formula",)
    paths: ClassVar[Sequence[str]] = project

    profit_formula: StoredPath | None = Field(
        None,
        description="a YAML file with a profit formula of your own, for `marts.profit_bridge_monthly`",
        examples=["formula.yaml"],
    )
