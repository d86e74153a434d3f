"""The chart of an account's months, as an observation of its newest month.

Dagster's own plots join the partitions of all accounts in one line.
"""

from collections import defaultdict
from collections.abc import Iterator

import dagster as dg

from seller_platform.contract import Dataset, Window
from seller_platform.ingest.loads.loading import SliceResult
from seller_platform.orchestration.account_names import AccountNames, subject_of
from seller_platform.orchestration.charts.figures import Figure, alternative_text, line_chart, markdown_image
from seller_platform.orchestration.partitions import partition_key
from seller_platform.orchestration.tags import HISTORY_CHART
from seller_platform.warehouse.history.volumes import rows_by_month
from seller_platform.warehouse.postgres.database import Database

# A daily refresh reads two months at most; a chart for each account every day would be most of Dagster's events.
_FEWEST_MONTHS = 3


def with_history_charts(
    results: Iterator[SliceResult],
    context: dg.AssetExecutionContext,
    dataset: Dataset,
    database: Database,
    names: AccountNames,
) -> Iterator[SliceResult]:
    """Yield the results, then report a chart for each account of which at least three months were loaded."""
    loaded: dict[str, list[Window]] = defaultdict(list)
    for result in results:
        if result.receipt is not None and result.request.month is not None:
            loaded[result.request.account].append(result.request.month)
        yield result
    for account, months in loaded.items():
        if len(months) >= _FEWEST_MONTHS:
            newest = max(months, key=lambda month: month.start)
            subject = subject_of(account, None, names.get(account))
            figure = figure_of(dataset, rows_by_month(database, dataset, account), subject)
            chart = dg.MetadataValue.md(markdown_image(alternative_text(figure), line_chart(figure)))
            context.log_event(
                dg.AssetObservation(
                    context.assets_def.key,
                    partition=partition_key(account, newest),
                    metadata={HISTORY_CHART: chart},
                )
            )


def figure_of(dataset: Dataset, rows: dict[Window, int | None], subject: str) -> Figure:
    """Return the title, the labels and the values of a chart.

    Args:
        subject: The name of the account.
    """
    return Figure(
        title=f"Rows of {dataset.name} by month",
        subject=subject,
        unit="rows",
        labels=tuple(f"{month.start:%Y-%m}" for month in rows),
        series={"Rows": tuple(rows.values())},
        when_empty="No rows are stored.",
    )
