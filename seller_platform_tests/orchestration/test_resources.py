"""Tests `SellerApiResource` in a project without a warehouse, with the asset of its docstring."""

import inspect
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from seller_platform.dagster import SellerApiResource
from seller_platform.errors import SettingsError
from seller_platform_tests.support.independent_upstream import (
    CLIENT_ID,
    CLIENT_SECRET,
    IndependentUpstream,
    open_independent_upstream,
)


@pytest.fixture
def upstream() -> Iterator[IndependentUpstream]:
    with open_independent_upstream("http://127.0.0.1:1/cb") as opened:
        yield opened


def _resource(upstream: IndependentUpstream, grant: Path) -> SellerApiResource:
    url = f"{upstream.url}/api"
    return SellerApiResource(base_url=url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, grant_file=str(grant))


def _documented_asset() -> dg.AssetsDefinition:
    """Return the asset that the docstring of the resource shows."""
    _, code, _ = inspect.cleandoc(SellerApiResource.__doc__ or "").split("```")
    assert len([line for line in code.splitlines()[1:] if line]) <= 10
    names: dict[str, Any] = {}
    exec(code.removeprefix("python"), names)
    asset = names["me"]
    assert isinstance(asset, dg.AssetsDefinition)
    return asset


def test_the_asset_of_the_docstring_calls_with_a_grant_in_a_file(upstream: IndependentUpstream, tmp_path: Path) -> None:
    grant = tmp_path / "grant.json"
    first = upstream.issue()["refresh_token"]
    grant.write_text(json.dumps({"refresh_token": first}))

    for _ in range(2):
        result = dg.materialize([_documented_asset()], resources={"seller_api": _resource(upstream, grant)})

    (event,) = result.asset_materializations_for_node("me")
    assert event.metadata["user"].value
    stored = json.loads(grant.read_text())
    assert stored["refresh_token"] in upstream.refresh - {first}
    assert stat.S_IMODE(grant.stat().st_mode) == 0o600
    assert upstream.replayed == 0


def test_a_resource_without_a_warehouse_names_the_attributes_that_it_lacks() -> None:
    with pytest.raises(
        SettingsError, match=r"lacks client_id, client_secret, grant_file\. It needs .*WarehouseResource\(\)"
    ):
        SellerApiResource(base_url="http://127.0.0.1:1").api()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        ("[]", "it is not a JSON object with a refresh_token"),
        ('{"refresh_token": "spent"}', "the upstream answered invalid_grant to its refresh token"),
    ],
)
def test_a_file_without_a_usable_grant_is_named_with_the_next_step(
    upstream: IndependentUpstream, tmp_path: Path, content: str | None, problem: str
) -> None:
    grant = tmp_path / "grant.json"
    if content is not None:
        grant.write_text(content)

    with pytest.raises(SettingsError, match=rf"grant\.json cannot be used: {problem}\. Write a JSON object"):
        _resource(upstream, grant).api().get("/user/me")
