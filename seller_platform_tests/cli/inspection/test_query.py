"""`seller-platform query`: exact values, errors with their position, and no way to secrets or to writes."""

import csv
import io
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from seller_platform.errors import SellerPlatformError
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.schema.readers import remove_reader, save_reader
from seller_platform_tests.documents.markdown import Document
from seller_platform_tests.support.command_line import COMMAND_LINE, invoke
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.tools.documentation import PAGES

VALUES = """
SELECT 12345678901234567890.10::numeric AS amount, 9007199254740993::bigint AS number, NULL::text AS nothing,
       ''::text AS empty, E'a,"b"\\nc' AS words, true AS yes, '2026-03-01 06:00:00.5+01'::timestamptz AS moment,
       '{"a": 1.10, "b": null}'::jsonb AS document, DATE '2026-03-01' AS day, 'NaN'::float8 AS ratio
"""
PASSWORD = "correct horse battery"


@pytest.fixture(scope="module")
def url(databases: Databases) -> Iterator[str]:
    with databases.lent() as database:
        save_reader(database, "asks", PASSWORD)
        yield database.url
        remove_reader(database, "asks")


def _as_reader(url: str) -> str:
    with Database(url) as database:
        return database.url_of_user("asks")


def _query(url: str, *words: str, given: str | None = None, reader: str | None = None) -> Result:
    login = _as_reader(url) if reader is None else reader
    variables = {"SELLER_PLATFORM_DATABASE_URL": url, "SELLER_PLATFORM_READER_URL": login}
    return invoke(COMMAND_LINE, ["query", *words], input=given, env=variables)


def _refused(url: str, *words: str, given: str | None = None, reader: str | None = None) -> str:
    result = _query(url, *words, given=given, reader=reader)
    assert isinstance(result.exception, SellerPlatformError), result.output
    assert result.exception.exit_code == 2
    return str(result.exception)


def test_csv_keeps_every_digit_and_tells_null_from_an_empty_text(url: str) -> None:
    result = _query(url, VALUES, "--csv")

    names, values = csv.reader(io.StringIO(result.stdout))
    row = dict(zip(names, values, strict=True))
    assert row["amount"] == "12345678901234567890.10"
    assert row["words"] == 'a,"b"\nc'
    assert row["moment"] == "2026-03-01 05:00:00.5+00"
    assert json.loads(row["document"]) == {"a": 1.10, "b": None}
    assert ',9007199254740993,,"","a,""b""\nc",t,' in result.stdout


def test_json_keeps_every_digit(url: str) -> None:
    (row,) = json.loads(_query(url, VALUES, "--json").stdout, parse_float=Decimal)

    assert row == {
        "amount": "12345678901234567890.10",
        "number": 9007199254740993,
        "nothing": None,
        "empty": "",
        "words": 'a,"b"\nc',
        "yes": True,
        "moment": "2026-03-01T05:00:00.5Z",
        "document": {"a": Decimal("1.10"), "b": None},
        "day": "2026-03-01",
        "ratio": "NaN",
    }
    assert json.loads(_query(url, "SELECT 1 WHERE false", "--json").stdout) == []


def test_the_statement_comes_from_standard_input_or_a_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "two.sql"
    file.write_text("SELECT 2 AS two")

    assert _query(url, "-", "--csv", given="SELECT 1 AS one; -- a comment").stdout == "one\n1\n"
    assert _query(url, "--file", str(file), "--csv").stdout == "two\n2\n"


def test_a_statement_that_is_no_text_is_refused(url: str, tmp_path: Path) -> None:
    file = tmp_path / "binary.sql"
    for content, problem in ((b"SELECT '\xff'", "is not UTF-8 (byte 9)"), (b"SELECT '\0'", "holds a NUL character")):
        file.write_bytes(content)

        assert problem in _refused(url, "--file", str(file))


def test_an_error_shows_its_position_and_a_hint(url: str) -> None:
    message = _refused(url, "SELECT account,\n       platform_order\nFROM seller.orders")

    assert message.splitlines() == [
        'column "platform_order" does not exist',
        "LINE 2:        platform_order",
        "               ^",
        'HINT:  Perhaps you meant to reference the column "orders.platform_order_id".',
    ]


def test_a_statement_that_takes_too_long_is_cancelled(url: str) -> None:
    assert "took too long, and was cancelled. Give it more seconds with --timeout." in _refused(
        url, "SELECT pg_sleep(20)", "--timeout", "0.1"
    )


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("delete from seller.orders", "queries only read: give a SELECT"),
        ("\n  LOCK TABLE seller.orders", "queries only read: give a SELECT"),
        ("selec 1", "queries only read: give a SELECT"),
        ("SELECT 1; SELECT 2", "there are several statements; give a single one"),
        ("SELECT 1; DROP TABLE seller.orders", "there are several statements; give a single one"),
        ("WITH gone AS (DELETE FROM seller.orders RETURNING *) SELECT * FROM gone", ""),
        ("EXPLAIN ANALYZE DELETE FROM seller.orders", ""),
        ("COMMIT", ""),
        ("", ""),
    ],
)
def test_what_is_no_single_query_is_refused(url: str, statement: str, problem: str) -> None:
    assert problem in _refused(url, statement)


@pytest.mark.needs("marts")
def test_tables_are_named_as_in_python(url: str) -> None:
    statement = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM account_profit_daily) AS n"

    assert _query(url, statement, "--csv").stdout.splitlines() == ["n", "0"]


@pytest.mark.parametrize("form", [(), ("--csv",), ("--json",)])
def test_two_columns_of_one_name_are_refused(url: str, form: tuple[str, ...]) -> None:
    assert "two columns are named a. Name them apart with AS" in _refused(url, "SELECT 1 AS a, 2 AS a", *form)


@pytest.mark.parametrize(
    "statement", ["-- a comment\nSELECT 1 AS n", "--csv\nSELECT 1 AS n", "--a=b -- c\n-- d\nSELECT 1 AS n"]
)
def test_a_statement_may_begin_with_a_comment(url: str, statement: str) -> None:
    for words in ([statement, "--csv"], ["--csv", statement], ["--csv", "--", statement]):
        assert _query(url, *words).stdout == "n\n1\n"
    assert "No such option '--cvs'" in _query(url, "--cvs", statement).stderr


def test_a_statement_runs_as_a_login_that_owns_nothing(url: str) -> None:
    assert _query(url, "SELECT session_user, current_user", "--csv").stdout.splitlines()[1] == "asks,asks"
    with psycopg.connect(url, autocommit=True) as connection:
        owner = connection.info.user
        for other in ("", url):
            message = _refused(url, "SELECT 1", reader=other)
            assert f"the login of a reader, and {owner} of " in message
            assert "Run `seller-platform database reader NAME`, and set SELLER_PLATFORM_READER_URL" in message
        connection.execute("GRANT pg_read_all_data TO asks")
        assert "asks of " in _refused(url, "SELECT 1")
        connection.execute("REVOKE pg_read_all_data FROM asks")


def test_every_example_of_the_pages_is_pasted_as_it_stands(company: Database) -> None:
    blocks = [block for page in sorted(PAGES.rglob("*.md")) for block in Document(page).blocks("sql")]
    of_status = ["TABLE platform.problems", "SELECT * FROM platform.repeated_ledgers"]
    examples = [text for block in blocks for text in block.split("\n\n")] + of_status

    save_reader(company, "pastes", PASSWORD)
    ends = {text: _query(company.url, text, reader=company.url_of_user("pastes")).output for text in examples}
    remove_reader(company, "pastes")

    assert len(examples) > 10
    assert {text: output for text, output in ends.items() if " row" not in output} == {}
