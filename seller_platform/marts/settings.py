"""The settings of marts."""

from pathlib import Path

from pydantic import Field, field_validator

from seller_platform.settings import Settings, absolute_path


class MartsSettings(Settings):
    """Which rules marts have."""

    profit_formula: Path | None = Field(
        None, description="a YAML file with a profit formula of your own, for `marts.profit_bridge_monthly`"
    )

    @field_validator("profit_formula")
    @classmethod
    def _stored(cls, path: Path | None) -> Path | None:
        return None if path is None else absolute_path(path)
