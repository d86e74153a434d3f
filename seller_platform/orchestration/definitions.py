"""Everything Dagster loads."""

import os
import warnings

import dagster as dg

from seller_platform.contract import DATASETS, Source
from seller_platform.orchestration.assets import accounts_asset, asset_for
from seller_platform.orchestration.resources import SellerApiResource, WarehouseResource
from seller_platform.settings import read_settings

SETTINGS = read_settings()


def _optional(name: str) -> "dg.EnvVar | None":
    return dg.EnvVar(name) if os.environ.get(name) else None


WAREHOUSE = WarehouseResource(database_url=_optional("SELLER_PLATFORM_DATABASE_URL"))

with warnings.catch_warnings():
    # Backfill policies are in beta and partitioned checks a preview; the tests of this floor tell when they change.
    warnings.simplefilter("ignore", dg.BetaWarning)
    warnings.simplefilter("ignore", dg.PreviewWarning)
    ASSETS = [
        accounts_asset(dataset) if dataset.source is Source.DISCOVERY else asset_for(dataset, SETTINGS.history_start)
        for dataset in DATASETS
        if dataset.source in (Source.DISCOVERY, Source.LIST)
    ]

defs = dg.Definitions(
    assets=ASSETS,
    resources={
        "warehouse": WAREHOUSE,
        "seller_api": SellerApiResource(
            warehouse=WAREHOUSE,
            base_url=dg.EnvVar("SELLER_API_BASE_URL"),
            auth_url=_optional("SELLER_API_AUTH_URL"),
            client_id=dg.EnvVar("SELLER_API_CLIENT_ID"),
            client_secret=dg.EnvVar("SELLER_API_CLIENT_SECRET"),
            redirect_uri=_optional("SELLER_API_REDIRECT_URI") or SETTINGS.redirect_uri,
        ),
    },
    executor=dg.in_process_executor,
)
