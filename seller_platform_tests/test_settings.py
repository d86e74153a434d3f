"""Tests that settings come only from the platform's variables, and that errors name them."""

import json
import os
import pickle
import re
from datetime import date
from pathlib import Path

import pytest

import seller_platform
from seller_platform.errors import InvalidSettingError, RequestError
from seller_platform.orchestration.component import SellerPlatformComponent
from seller_platform.project import PROJECT_FILE
from seller_platform.settings import named_in, origins, read_settings, required
from seller_platform_tests.support.command_line import run_here


@pytest.fixture(autouse=True)
def _fresh_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_under_the_demo_nothing_leads_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_HOME", str(tmp_path))
    monkeypatch.setenv("SELLER_PLATFORM_DATABASE_URL", "postgresql://user@127.0.0.1:1/none")
    monkeypatch.setenv("SELLER_API_BASE_URL", "https://api.example.com")
    before = read_settings()
    monkeypatch.setenv("SELLER_PLATFORM_DEMO", "1")

    settings = read_settings()

    assert before.home == tmp_path
    assert (settings.home, settings.database_url, settings.base_url) == (tmp_path / "sandbox", None, None)
    with pytest.raises(RequestError, match=r"there is no demo in .*sandbox"):
        seller_platform.read("orders")
    resources = SellerPlatformComponent(history_start=date(2026, 1, 2)).definitions().resources
    assert resources is not None
    assert resources["warehouse"].database_url is None


def test_variables_of_others_change_no_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("DATABASE_URL", "postgresql://elsewhere")
    monkeypatch.setenv("CLIENT_ID", "other")

    settings = read_settings()

    assert (settings.home, settings.database_url, settings.client_id) == (tmp_path / ".seller_platform", None, None)
    assert settings.redirect_uri == "http://127.0.0.1:8765/callback"


def test_values_are_read_and_an_empty_one_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELLER_API_BASE_URL", "https://api.example.com/v1/")
    monkeypatch.setenv("SELLER_API_AUTH_URL", "")
    monkeypatch.setenv("SELLER_API_REDIRECT_URI", "http://localhost:9/back/")
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", "2024-02-29")

    settings = read_settings()

    assert (settings.base_url, settings.auth_url) == ("https://api.example.com/v1", None)
    assert settings.redirect_uri == "http://localhost:9/back/"
    assert settings.history_start == date(2024, 2, 29)


def test_secrets_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SELLER_PLATFORM_SECRET_KEY", "SELLER_API_CLIENT_SECRET", "SELLER_PLATFORM_DATABASE_URL"):
        monkeypatch.setenv(name, "canary")

    assert "canary" not in repr(read_settings())


def test_a_secret_may_be_a_file_and_variables_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "SELLER_PLATFORM_DATABASE_URL").write_text("postgresql://from-file/a\n")
    (tmp_path / "SELLER_API_CLIENT_SECRET").write_text("from-file")
    monkeypatch.setenv("SELLER_PLATFORM_SECRETS_DIR", str(tmp_path))
    monkeypatch.setenv("SELLER_API_CLIENT_SECRET", "from-environment")

    settings = read_settings()

    assert required(settings.database_url, "x", "y") == "postgresql://from-file/a"
    assert required(settings.client_secret, "x", "y") == "from-environment"


def test_every_line_that_init_writes_counts_without_its_mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = run_here(["init", "--json"], os.environ)
    file = tmp_path / PROJECT_FILE
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", file.read_text(), flags=re.MULTILINE))
    again = run_here(["init"], os.environ)
    monkeypatch.setenv("SELLER_PLATFORM_HISTORY_START", "2024-05-01")
    monkeypatch.setenv("SELLER_PLATFORM_DATASETS", "orders, inventory")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    settings = read_settings()

    assert json.loads(written.stdout)["path"] == str(file)
    assert (again.returncode, f"{file} exists" in again.stderr) == (2, True)
    assert settings.model_fields_set >= {*named_in("project")}
    assert (settings.history_start, settings.datasets) == (date(2024, 5, 1), ("orders", "inventory"))
    assert (settings.requests_per_day, settings.home) == (5_000, tmp_path / ".seller_platform")
    assert {getattr(settings, name) for name in named_in("paths")} <= {
        *(tmp_path / name for name in ("accounts.yaml", "ChartOfAccounts.csv", "formula.yaml")),
        str(tmp_path / "lake"),
    }
    assert pickle.loads(pickle.dumps(settings)) == settings
    where = origins(settings)
    assert (where["history_start"], where["lookback"]) == ("SELLER_PLATFORM_HISTORY_START", str(file))
    monkeypatch.setenv("SELLER_PLATFORM_DEMO", "1")
    assert read_settings().datasets == ("orders", "inventory")
    assert read_settings().requests_per_day is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("client_secret = 'c4nary'", r"'client_secret' is no setting of a project; choose of datasets, .*environment"),
        ("dataset = ['orders']", r"'dataset' is no setting of a project \(did you mean 'datasets'\?\)"),
        ("history_start = 'c4nary'", r"seller_platform\.toml: history_start: must be a valid date"),
        ("fail_on = 'c4nary'", r"seller_platform\.toml: fail_on: must be 'error', 'warning' or 'never'"),
        ("owners = ['c4nary']", r"seller_platform\.toml: owners: must be an e-mail address or team:NAME"),
        ("requests_per_day = 0", r"seller_platform\.toml: requests_per_day: must be greater than or equal to 1"),
        ("datasets = 7", r"seller_platform\.toml: datasets: "),
        ("lookback =", r"seller_platform\.toml: cannot be read: Invalid value"),
    ],
)
def test_what_a_project_file_cannot_have_is_named(line: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / PROJECT_FILE).write_text(line)

    with pytest.raises(InvalidSettingError, match=problem) as raised:
        read_settings()

    assert "c4nary" not in str(raised.value)
