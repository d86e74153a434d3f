"""The option `--sample` of `sync`."""

from collections.abc import Sequence
from datetime import UTC, datetime

from seller_platform.cli.connect import open_stored_apis
from seller_platform.cli.installation import Installation
from seller_platform.cli.output import Output
from seller_platform.cli.sync import Synced
from seller_platform.errors import NotConnectedError
from seller_platform.ingest.loads.loading import SliceLoader
from seller_platform.sampling.comparing import compare_sample
from seller_platform.sampling.draws import sample
from seller_platform.warehouse.connections.accounts import account_titles, connections


def compare_months(installation: Installation, output: Output) -> tuple[Synced, Sequence[str]]:
    """Compare stored months that are drawn at random, and return the result, and what follows from it.

    Raises:
        NotConnectedError: No connection is authorised yet.
    """
    settings, database = installation.settings, installation.database
    if not connections(database):
        raise NotConnectedError
    with open_stored_apis(installation) as api, output.progress("Comparing months at random", None):
        loader = SliceLoader(database, api, datetime.now(UTC), adaptive=settings.is_adaptive)
        pause, per_day = settings.second_reading_seconds, settings.requests_per_day
        results = list(compare_sample(loader, requests_per_day=per_day, second_reading_seconds=pause))
    synced = Synced([], {}, titles=account_titles(database)).and_loaded(results, {})
    return synced, [str(sample(database, datetime.now(UTC)))]
