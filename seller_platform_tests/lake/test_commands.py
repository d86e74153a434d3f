"""`seller-platform export`: what is written, what is not, and why."""

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from seller_platform.contract import Window, dataset_named
from seller_platform.lake.partitions import Exported, export_partitions
from seller_platform.lake.settings import LakeSettings
from seller_platform.settings import read_settings
from seller_platform.warehouse.derived.builds import build_partition
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import completed, document, environment
from seller_platform_tests.support.receipts import mark_loaded
from seller_platform_tests.support.shop import ACCOUNT, Shop, connected_shop, mart_named
from seller_platform_tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.slow

DAILY, LEDGER, PROFIT = (
    dataset_named("daily_product_sales"),
    dataset_named("transactions"),
    mart_named("account_profit_daily"),
)
FEBRUARY, MARCH, APRIL = (Window.month_of(date(2026, month, 1)) for month in (2, 3, 4))


@pytest.fixture(scope="module")
def shop(databases: Databases) -> Iterator[Shop]:
    """An account with sales in February and March, and one without any load."""
    with databases.lent() as database:
        opened = connected_shop(database)
        for dataset in (DAILY, LEDGER):
            mark_loaded(database, dataset, ACCOUNT, FEBRUARY, MARCH)
        build_partition(database, PROFIT, ACCOUNT, FEBRUARY)
        yield opened


@pytest.fixture(scope="module")
def variables(shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    return environment(home, SELLER_PLATFORM_DATABASE_URL=shop.database.url, SELLER_PLATFORM_EXPORT_DIR=f"{home}/lake")


def _export(variables: dict[str, str], *words: str) -> list[dict[str, Any]]:
    return list(document(run_here(["export", *words, "--json"], variables))["partitions"])


def test_tables_have_what_is_stored_or_there_is_a_reason(shop: Shop, variables: dict[str, str], tmp_path: Path) -> None:
    partitions = _export(variables, "--from", "2026-02", "--to", "2026-04")

    written = {(each["table"], each["account"], each["month"]): each for each in partitions if each["version"]}
    expected = [(source, month) for source in (DAILY, LEDGER) for month in (FEBRUARY, MARCH)] + [(PROFIT, FEBRUARY)]
    assert set(written) == {(source.table, ACCOUNT, f"{month.start:%Y-%m}") for source, month in expected}
    for source, month in expected:
        ((_, result),) = export_partitions(shop.database, source, [(ACCOUNT, month)], str(tmp_path)).items()
        each = written[source.table, ACCOUNT, f"{month.start:%Y-%m}"]
        assert isinstance(result, Exported)
        assert (each["rows"], each["replaced"], each["version"]) == (result.rows, 1, 1)
        assert each["path"] == f"{variables['SELLER_PLATFORM_EXPORT_DIR']}/{source.name}"
    assert Counter(
        each["reason"] for each in partitions if not each["version"] and each["account"] == ACCOUNT
    ) >= Counter({"never loaded": 2, "never built": 2})


def test_only_what_changed_is_replaced_in_a_given_folder(shop: Shop, variables: dict[str, str], tmp_path: Path) -> None:
    words = ("seller.daily_product_sales", "--account", "north pine us", "--folder", str(tmp_path))
    first = _export(variables, *words, "--from", "2026-02", "--to", "2026-03")
    shop.sell("2026-03-05", "B", 1, "10.00")

    again = _export(variables, *words, "--from", "2026-02", "--to", "2026-03")
    of_month = _export(variables, *words, "--month", "2026-03")
    printed = run_here(["export", *words, "--from", "2026-02", "--to", "2026-04"], variables)

    assert [each["replaced"] for each in (*first, *again, *of_month)] == [1, 1, 0, 1, 0]
    assert [(each["rows"], each["path"]) for each in of_month] == [(2, str(tmp_path / "daily_product_sales"))]
    assert (printed.returncode, "never loaded" in printed.stdout) == (0, True)
    assert "2026-02 .. 2026-03" in printed.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["orders", "--account", ACCOUNT, "--from", "2026-02", "--to", "2026-03"],
            "seller-platform sync --dataset orders --account us-1 --from 2026-02 --to 2026-03",
        ),
        ([PROFIT.table, "--month", "2026-03"], "seller-platform marts build account_profit_daily"),
        (["--month", "2026-03", "--to", "2026-04"], "--month is a single month, --from and --to are several"),
    ],
)
def test_what_is_not_stored_or_no_month_is_refused_with_the_next_step(
    variables: dict[str, str], words: list[str], message: str
) -> None:
    result = run_here(["export", *words], variables)

    assert (result.returncode, message in " ".join(result.stderr.split())) == (2, True)


def test_without_the_extra_its_installation_is_named(variables: dict[str, str]) -> None:
    program = "import sys; sys.modules['deltalake'] = None; from seller_platform.cli import main; sys.exit(main())"

    result = completed([sys.executable, "-c", program, "export", DAILY.name], env=variables, timeout=PATIENCE_SECONDS)

    assert result.returncode == 2, result.stderr
    assert "pip install 'seller-platform[lake]'" in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "url",
    ["s3://bucket/lake", "gs://bucket", "az://container/lake", "abfss://container@account.dfs.core.windows.net/lake"],
)
def test_the_folder_of_exports_may_be_a_url(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SELLER_PLATFORM_EXPORT_DIR", f"{url}/")

    assert read_settings().of(LakeSettings).export_dir == url
