"""The settings of marts."""

from pydantic import Field

from seller_platform.settings import Settings, StoredPath


class MartsSettings(Settings):
    """Which rules marts have."""

    profit_formula: StoredPath | None = Field(
        None, description="a YAML file with a profit formula of your own, for `marts.profit_bridge_monthly`"
    )
