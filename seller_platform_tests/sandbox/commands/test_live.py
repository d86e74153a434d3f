"""Tests of `sandbox live` and what `dev` runs: a line for each day, and databases that are not filled."""

from datetime import date
from pathlib import Path

import pytest
import yaml

from seller_platform.errors import RequestError
from seller_platform.sandbox.commands import sandbox
from seller_platform.sandbox.commands.dev import dagster_commands, live_command
from seller_platform.warehouse.connections.accounts import KnownConnection, save_connection
from seller_platform.warehouse.postgres.database import Database
from seller_platform_tests.support.command_line import invoke
from seller_platform_tests.support.sandbox_tables import rows

SMALL = ("--accounts", "1", "--months", "1", "--orders-per-month", "100")


def run(database: Database, *options: str) -> list[str]:
    """Run the command in this process and return the lines of its output."""
    command = ["live", "--database-url", database.url, "--days-per-second", "1000", *SMALL, *options]
    result = invoke(sandbox, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [line for line in result.output.splitlines() if line.startswith("2026")]


def _changed_orders(database: Database) -> list[tuple[object, ...]]:
    """Return the days of March to which a load changed orders."""
    return rows(
        database,
        "SELECT DISTINCT extract(day FROM window_end)::integer AS day FROM platform.published_loads "
        "WHERE dataset = 'orders' AND changed ORDER BY day",
    )


def test_each_day_is_a_line_and_a_later_command_continues(database: Database) -> None:
    lines = run(database, "--from", "2026-03-10", "--until", "2026-03-12")
    later = run(database, "--from", "2026-03-10", "--until", "2026-03-13", "--continue")

    assert lines[0] == "2026-03-10  1 account with 1 month of sales"
    assert [line[:10] for line in (*lines[1:], *later)] == [f"2026-03-{day}" for day in range(11, 14)]
    assert _changed_orders(database) == [(11,), (12,), (13,)]


def test_dev_lets_days_go_by(database: Database) -> None:
    run(database, "--from", "2026-03-10", "--until", "2026-03-10")

    command = live_command(date(2026, 3, 10), accounts=1, months=1)
    (line,) = run(database, *command[command.index("live") + 1 :], "--until", "2026-03-11", "--days-per-second", "1000")

    assert line.startswith("2026-03-11 ")
    assert _changed_orders(database) == [(11,)]


def test_dev_names_the_code_location_as_the_project_does(tmp_path: Path) -> None:
    dagster_commands(tmp_path, "http://127.0.0.1:3000")

    (location,) = yaml.safe_load((tmp_path / "workspace.yaml").read_text())["load_from"]
    assert location["grpc_server"]["location_name"] == "seller_platform"


def test_a_warehouse_with_connections_is_not_filled(database: Database) -> None:
    save_connection(database, KnownConnection("ana", "http://api", "http://auth", "client"))

    with pytest.raises(RequestError, match="is a warehouse with the connections ana; generated rows would"):
        invoke(sandbox, ["load", "--database-url", database.url], catch_exceptions=False)

    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM seller.orders").scalar_one() == 0
