"""Descriptions of assets in Markdown: what a row and a slice are, how to repair a slice, and a first query."""

from seller_platform.contract import Dataset, Slicing, Source
from seller_platform.orchestration.placement import WHOLE, Placement

_SLICES = {
    Slicing.MONTH: "**A partition** is an account and a month. It is replaced whole, and has exactly the rows that the "
    "list has.",
    Slicing.SNAPSHOT: "**A partition** is an account. A load stores the snapshot of today; of each day the last one "
    "stays.",
    Slicing.CONNECTION: "**A load** replaces all accounts that a connection lists; there are no partitions.",
}
_REPORTS = "**A partition** is an account. A load stores every requested report that is ready."


def describe_dataset(dataset: Dataset, placement: Placement = WHOLE) -> str:
    is_report, name_of = dataset.source is Source.REPORT, placement.name_of
    if is_report:
        repair = (
            f"launch the job `{name_of('request_reports')}` for the account. The sensor `{name_of('report_jobs')}` "
            "loads each ready report"
        )
    elif dataset.slicing is Slicing.CONNECTION:
        repair = "materialize it again. The check `connection_authorized` names the connections to authorise again"
    else:
        repair = (
            f"*Materialize* the partition, or launch the job `{name_of('refresh_now')}` for the account; *Failed and "
            "missing* takes those that no load has stored. A failed check names the cause. A partition whose total "
            "does not add up is stored, and the next refresh reads it again; a held reading is published by the job "
            f"`{name_of('accept_held')}`"
        )
    sql = f"SELECT *\nFROM {dataset.table}{'_latest' if dataset.keeps_snapshots else ''}"
    if dataset.is_dated:
        sums, days = "".join(f", sum({each.name}) AS {each.name}" for each in dataset.money[:1]), "account, local_day"
        since = "WHERE local_day >= current_date - 30"
        sql = f"SELECT {days}, count(*) AS rows{sums}\nFROM {dataset.table}\n{since}\nGROUP BY {days}\nORDER BY {days}"
    paragraphs = (
        dataset.doc,
        f"{_REPORTS if is_report else _SLICES[dataset.slicing]} The receipt of each load is in `platform.loads`.",
        f"**Repair:** {repair}.",
        first_query(sql),
    )
    return "\n\n".join(paragraphs)


def first_query(sql: str) -> str:
    """Return the part of a description with a query of 100 rows."""
    return f"**A first query:**\n\n```sql\n{sql}\nLIMIT 100;\n```"
