"""The marts as a table in Markdown, as the README shows them."""

from seller_platform.warehouse.marts.registry import MARTS


def mart_list() -> str:
    """Return one row for each mart: asset and table, partitions, inputs, and what a row is."""
    rows = [
        f"| `marts/{mart.name}` | {'account × month' if mart.is_monthly else 'account'} | "
        f"{', '.join(f'`{each.dataset.name}`' for each in mart.inputs)} | {mart.doc} |"
        for mart in MARTS
    ]
    return "\n".join(["| asset, table | partitions | computed from | a row is |", "|---|---|---|---|", *rows])
