"""`seller-platform status`: expected and stored days, refusals, age, and the grants."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

import click

from seller_platform.cli.installation import open_installation
from seller_platform.cli.output import Output, json_option
from seller_platform.contract import REFRESHED
from seller_platform.warehouse.connections.grants import Grants
from seller_platform.warehouse.history.settledness import settledness
from seller_platform.warehouse.loads.history_start import history_start_in
from seller_platform.warehouse.monitoring.coverage import Coverage, CoverageState, coverage

_COLUMNS = (
    "dataset",
    "account",
    "state",
    "first_day",
    "last_day",
    "missing_days",
    "rows",
    "verdict",
    "age_hours",
    "settles_after_days",
)


@click.command()
@json_option
def status(*, output: Output) -> None:
    """Show what is stored and missing of each dataset, its age, and the state of the grants.

    Each account has a line for every dataset that `sync` loads: loaded, never loaded, held, or refused and why. Missing
    days are counted from the start of history. A day has settled when at most 0.1 % of it still changes.
    """
    now = datetime.now(UTC)
    with open_installation() as installation:
        since = history_start_in(installation.database, installation.settings)
        covered = coverage(installation.database, since=since)
        grants = Grants(installation.database, installation.box).facts()
        keys = sorted({each.account for each in covered})
        known = settledness(installation.database, REFRESHED, keys)
    lookbacks = {dataset.name: dataset.lookback_days for dataset in REFRESHED}
    rows = [
        {
            **asdict(each),
            "settles_after_days": known[each.dataset, each.account].settles_after(lookbacks[each.dataset])
            if (each.dataset, each.account) in known
            else None,
            "reason": each.reason,
            "age_hours": each.read_at and round((now - each.read_at).total_seconds() / 3600, 1),
        }
        for each in covered
    ]
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
    output.document({"history_start": since, "coverage": rows, "grants": granted})
    if not granted:
        output.say("Nothing is connected yet; run `seller-platform connect`, or try `seller-platform demo`.")
        return
    names = tuple(granted[0])
    output.table("Grants", names, [tuple(grant[name] for name in names) for grant in granted])
    output.table(f"Coverage since {since}", _COLUMNS, [tuple(row[name] for name in _COLUMNS) for row in rows])
    _report_absent(covered, output)


def _report_absent(covered: Sequence[Coverage], output: Output) -> None:
    """Print the reason of each refusal once, and what to run for what was never loaded."""
    concerned: dict[tuple[str, str], list[str]] = {}
    for each in covered:
        if each.reason is not None:
            concerned.setdefault((each.dataset, each.reason), []).append(each.account)
    for (dataset, reason), keys in concerned.items():
        output.line(f"not loaded anew: {dataset} of {keys[0] if len(keys) == 1 else f'{len(keys)} accounts'}: {reason}")
    never = sum(each.state is CoverageState.NEVER_LOADED for each in covered)
    if never:
        output.say(f"{never} of {len(covered)} were never loaded; `seller-platform sync` loads what is missing.")
