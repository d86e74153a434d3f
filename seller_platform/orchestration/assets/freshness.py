"""How old an asset may become, as a freshness policy of Dagster; its daemon evaluates them by itself."""

from datetime import timedelta

import dagster as dg

from seller_platform.contract import Dataset, Slicing, Source

# A refresh a day, and two hours for its runs; after a second day without one, something has stopped.
_DAILY = (timedelta(hours=26), timedelta(hours=50))
# Every connection is asked for its accounts each hour; what stands still for half a day does not find new ones.
_DISCOVERY = (timedelta(hours=3), timedelta(hours=12))


def freshness_for(dataset: Dataset) -> dg.FreshnessPolicy | None:
    """Return how old the newest rows of a dataset may become; None where nothing is expected by a certain time.

    Reports come when the upstream has written them, which may take days or never happen.
    A policy looks at an asset as a whole: one account that is not read does not make it stale, its failures do that.
    """
    if dataset.source is Source.REPORT:
        return None
    warn, fail = _DISCOVERY if dataset.slicing is Slicing.CONNECTION else _DAILY
    return dg.FreshnessPolicy.time_window(fail_window=fail, warn_window=warn)
