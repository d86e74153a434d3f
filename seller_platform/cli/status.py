"""`seller-platform status`: what is covered, how old it is, and how the grants are."""

from collections import defaultdict
from datetime import UTC, datetime

import click

from seller_platform.cli.output import Output, json_option
from seller_platform.cli.workplace import open_workplace
from seller_platform.warehouse.grants import Grants
from seller_platform.warehouse.receipts import latest_receipts
from seller_platform.warehouse.slices import Receipt

_COLUMNS = ("dataset", "account", "from", "to", "rows", "verdict", "age_hours")


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    """Show what is covered, how old it is, and how the grants are."""
    output = Output(as_json=as_json)
    now = datetime.now(UTC)
    with open_workplace() as place:
        receipts = latest_receipts(place.database)
        grants = Grants(place.database, place.box).facts()
    groups: dict[tuple[str, str], list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        groups[(receipt.dataset, receipt.account)].append(receipt)
    covered = [_coverage(key, group, now) for key, group in groups.items()]
    granted = [
        {
            "connection": grant.connection,
            "rotations": grant.generation - 1,
            "issued_at": grant.issued_at.isoformat(timespec="seconds"),
            "expires_at": grant.expires_at.isoformat(timespec="seconds"),
            "state": f"refused: {grant.refused}" if grant.refused else "granted",
        }
        for grant in grants
    ]
    if as_json:
        output.document({"coverage": covered, "grants": granted})
        return
    if not granted:
        output.say("Nothing is connected yet; run `seller-platform connect`, or `seller-platform demo` for a look.")
        return
    names = tuple(granted[0])
    output.table("Grants", names, [tuple(grant[name] for name in names) for grant in granted])
    output.table("Coverage", _COLUMNS, [tuple(row[name] for name in _COLUMNS) for row in covered])


def _coverage(key: tuple[str, str], group: list[Receipt], now: datetime) -> dict[str, object]:
    newest = max(group, key=lambda receipt: receipt.finished_at)
    return {
        "dataset": key[0],
        "account": key[1],
        "from": str(min(receipt.window.start for receipt in group)),
        "to": str(max(receipt.window.last_day for receipt in group)),
        "rows": newest.rows if newest.window.days == 1 else None,
        "verdict": newest.verdict,
        "age_hours": round((now - newest.finished_at).total_seconds() / 3600, 1),
    }
