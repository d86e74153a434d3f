"""The datasets as a table in Markdown, as the README shows them."""

from seller_platform.contract.dataset import Dataset, Slicing, Source
from seller_platform.contract.datasets import DATASETS

_PARTITIONS = {
    Slicing.MONTH: "account × month",
    Slicing.SNAPSHOT: "account; one snapshot a day",
    Slicing.CONNECTION: "none",
}


def dataset_table(datasets: tuple[Dataset, ...] = DATASETS) -> str:
    """Return one row for each dataset: asset and table, endpoint, partitions, and what a row is."""
    rows = [
        f"| `seller/{dataset.name}` | `{dataset.path}` | {_partitions(dataset)} | {dataset.doc} |"
        for dataset in datasets
    ]
    return "\n".join(["| asset, table | endpoint | partitions | a row is |", "|---|---|---|---|", *rows])


def _partitions(dataset: Dataset) -> str:
    if dataset.source is Source.REPORT:
        return "account; every report that was requested"
    return _PARTITIONS[dataset.slicing]
