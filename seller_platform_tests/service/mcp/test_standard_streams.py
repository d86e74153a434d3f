"""Tests `seller-platform mcp` with the client of package mcp."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from seller_platform.answers.tools import TOOLS
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import save_reader
from seller_platform_tests.support.processes import environment

_COMMAND = ["-m", "seller_platform.cli", "mcp"]
pytestmark = pytest.mark.slow


def test_a_stock_client_lists_the_tools_and_calls_them(company: Database, tmp_path: Path) -> None:
    save_reader(company, "host", "correct horse battery")
    urls = {"SELLER_PLATFORM_DATABASE_URL": company.url, "SELLER_PLATFORM_READER_URL": company.url_of_user("host")}
    variables = environment(tmp_path / "home", **urls)
    server = StdioServerParameters(command=sys.executable, args=_COMMAND, env=variables)

    async def ask() -> tuple[Any, ...]:
        async with Client(server) as client:
            return (
                client.session.protocol_version,
                (await client.list_tools()).tools,
                await client.call_tool("accounts", {}),
                await client.call_tool("account", {}),
                await client.call_tool("accounts", {"statement": "TABLE service.users"}),
                await client.call_tool("sql", {"statement": "SELECT session_user AS login"}),
            )

    version, tools, accounts, unknown, wrong, asked = anyio.run(ask)

    assert version == "2026-07-28"
    assert [tool.name for tool in tools] == [tool.name for tool in TOOLS]
    assert all(tool.annotations.read_only_hint and not tool.annotations.open_world_hint for tool in tools)
    assert len(accounts.structured_content["rows"]) == 3
    assert {"as_of", "coverage", "settledness", "seen"} <= accounts.structured_content["proof"].keys()
    assert json.loads(accounts.content[0].text) == accounts.structured_content
    assert (accounts.is_error, unknown.is_error, wrong.is_error) == (False, True, True)
    assert "accounts" in unknown.structured_content["refused"]["candidates"]
    assert set(wrong.structured_content["refused"]) == {"reason", "remedy", "candidates"}
    assert asked.structured_content["rows"] == [{"values": {"login": "host"}}]
