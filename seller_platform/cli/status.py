"""`seller-platform status`: stored days, their age, and the grants."""

from dataclasses import asdict
from datetime import UTC, datetime

import click

from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.loads.coverage import coverage

_COLUMNS = ("dataset", "account", "first_day", "last_day", "missing_days", "rows", "verdict", "age_hours")


@click.command()
@json_option
def status(*, output: Output) -> None:
    """Show the stored days of each list, their age, and the state of the grants."""
    now = datetime.now(UTC)
    with open_installation() as installation:
        covered = [
            {**asdict(each), "age_hours": round((now - each.read_at).total_seconds() / 3600, 1)}
            for each in coverage(installation.database)
        ]
        grants = Grants(installation.database, installation.box).facts()
    granted = [
        {
            "connection": grant.connection,
            "state": f"refused: {grant.refused}" if grant.refused else "granted",
            "rotations": grant.generation - 1,
            "issued_at": f"{grant.issued_at:%Y-%m-%d %H:%M} UTC",
            "expires_at": f"{grant.expires_at:%Y-%m-%d %H:%M} UTC",
        }
        for grant in grants
    ]
    output.document({"coverage": covered, "grants": granted})
    if not granted:
        output.say("Nothing is connected yet; run `seller-platform connect`, or try `seller-platform demo`.")
        return
    names = tuple(granted[0])
    output.table("Grants", names, [tuple(grant[name] for name in names) for grant in granted])
    output.table("Coverage", _COLUMNS, [tuple(row[name] for name in _COLUMNS) for row in covered])
