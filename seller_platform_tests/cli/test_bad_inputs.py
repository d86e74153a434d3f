"""Tests that bad inputs end with a sentence and the right exit code, and change nothing."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text

from seller_platform.warehouse.connections.secrets import secret_box
from seller_platform_tests.support import command_line
from seller_platform_tests.support.command_line import run_here
from seller_platform_tests.support.postgres import Databases
from seller_platform_tests.support.processes import environment

pytestmark = pytest.mark.slow

SECRET = "c4nary"
# Nobody has this address (RFC 5737), and nothing answers on this port.
FOREIGN, NOWHERE = "203.0.113.7", "http://127.0.0.1:9"
ROLE = "has_no_right"
USAGE, FAILED, CHECK = 2, 1, 5

DATABASE, HOME = "SELLER_PLATFORM_DATABASE_URL", "SELLER_PLATFORM_HOME"
SERVICE, EXPORTS = "SELLER_PLATFORM_SERVICE_DATABASE_URL", "SELLER_PLATFORM_EXPORT_DIR"
API = {
    "SELLER_API_BASE_URL": NOWHERE,
    "SELLER_API_AUTH_URL": NOWHERE,
    "SELLER_API_CLIENT_ID": "id",
    "SELLER_API_CLIENT_SECRET": SECRET,
}


@dataclass(frozen=True)
class Bad:
    """An input, the exit code, and words of the message.

    `{url}` stands for the URL of a database, `{folder}` for a folder, and `{file}` for a file in it.
    """

    command: str
    words: str
    code: int = USAGE
    variables: Mapping[str, str] = field(default_factory=dict)
    typed: str = ""


SETTINGS = [
    Bad("status", f"{DATABASE}: is empty", variables={DATABASE: ""}),
    Bad("status", f"{DATABASE}: is not a URL", variables={DATABASE: SECRET}),
    Bad("status", "names the database 'mysql'", variables={DATABASE: f"mysql://a:{SECRET}@host/x"}),
    Bad("status", "must be encoded; write @ as %40", variables={DATABASE: f"postgresql://a:1/{SECRET}@host/x"}),
    Bad("sync", "a URL cannot hold there", variables={DATABASE: f"postgresql://a:1#{SECRET}@host/x"}),
    Bad("status", "has a port that is no number", variables={DATABASE: f"postgresql://a:{SECRET}@host:99999/x"}),
    Bad(
        "status",
        "'sslmod', which PostgreSQL does not know (did you mean 'sslmode'",
        variables={DATABASE: "{url}&sslmod=require"},
    ),
    Bad("status", "bad value for connect_timeout", FAILED, {DATABASE: "postgresql://h/x?connect_timeout=soon"}),
    Bad("status", "Connection refused", FAILED, {DATABASE: f"postgresql://a:{SECRET}@127.0.0.1:9/x"}),
    Bad("prune", "/absent has no tables of Seller Platform", USAGE, {DATABASE: "{server}/absent{socket}"}),
    Bad("status", 'role "absent" does not exist', FAILED, {DATABASE: "{url}&user=absent"}),
    Bad("status", "lacks a right: permission denied for schema platform", FAILED, {DATABASE: f"{{url}}&user={ROLE}"}),
    Bad("doctor", "not met: schema", CHECK, {DATABASE: f"{{url}}&user={ROLE}"}),
    Bad("migrate", f"{HOME}", variables={HOME: "{file}"}),
    Bad("status", "a user that this machine does not have", variables={HOME: "~absent-user/x"}),
    Bad("status", "holds a line break", variables={HOME: "{folder}/a\nb"}),
    Bad("service worker", "must be greater than or equal to 1", variables={"SELLER_PLATFORM_SERVICE_CONNECTIONS": "0"}),
    Bad("status", "must be 'adaptive' or 'fixed'", variables={"SELLER_PLATFORM_LOOKBACK": "wide"}),
    Bad("status", "must be an http or https URL", variables={"SELLER_API_BASE_URL": "ftp://host"}),
    Bad("alerts send", "must be an http or https URL", variables={"SELLER_PLATFORM_ALERT_WEBHOOK_URL": SECRET}),
    Bad(
        "service worker", "URL without path", variables={"SELLER_PLATFORM_SERVICE_PUBLIC_URL": f"https://{SECRET}@host"}
    ),
    Bad("export", EXPORTS, variables={EXPORTS: f"ftp://{SECRET}/lake"}),
    Bad("export", EXPORTS, variables={EXPORTS: f"s3://key:{SECRET}/x@bucket/lake"}),
    Bad("export", EXPORTS, variables={EXPORTS: f"az://container/lake?sig={SECRET}"}),
    Bad("service worker", "IP addresses or networks", variables={"SELLER_PLATFORM_SERVICE_TRUSTED_PROXIES": "*"}),
    Bad("keys rotate", "SELLER_PLATFORM_SECRET_KEY", variables={"SELLER_PLATFORM_SECRET_KEY": SECRET}),
]

COMMANDS = [
    Bad("stauts", "No such command 'stauts'. Did you mean 'status'?"),
    Bad("sync --acount us-1", "No such option '--acount'. Did you mean '--account'?"),
    Bad("query --jsno x", "No such option '--jsno'"),
    Bad("sync --dataset nope", "there is no dataset 'nope'; choose one of"),
    Bad("sync", "seller-platform connect"),
    Bad("connect", "SELLER_API_BASE_URL is not set; it is the URL under which"),
    Bad("connect --no-browser", "no answer from 127.0.0.1:9", variables=API),
    Bad("connect --no-browser", "SELLER_API_REDIRECT_URI", variables={**API, "SELLER_API_REDIRECT_URI": "ftp://x"}),
    Bad("explain orders absent-order", "orders has no stored row with platform_order_id = 'absent-order'"),
    Bad("explain transactions x", "'x' is of no key column. Give column=value with one of posted"),
    Bad("explain notifications sixty", 'invalid input syntax for type bigint: "sixty"'),
    Bad("explain orders x platform_order_id=y", "platform_order_id is given twice"),
    Bad("explain orders x --account nobody", "there is no account 'nobody'"),
    Bad("export orders", "SELLER_PLATFORM_EXPORT_DIR is not set"),
    Bad("marts build account_profit", "no mart 'account_profit' (did you mean 'account_profit_daily'?); choose one of"),
    Bad("report download 7", "there is no report number 7. Take a number that `seller-platform report list` shows"),
    Bad("diff inventory de-2 2026-03", "inventory has no months"),
    Bad("accept 99", "load 99"),
    Bad("revert 99", "load 99"),
    Bad("costs plan {folder}/absent.csv", "absent.csv"),
    Bad("costs apply 99", "99"),
    Bad("backup {folder}/absent/new", "No such file or directory. Make {folder}/absent a folder that can be", FAILED),
    Bad(
        "backup {folder}/new",
        "pg_dump said: pg_dump: error: query failed: ERROR: permission denied for schema "
        "platform. Fix what it says, and run the command again",
        FAILED,
        {DATABASE: f"{{url}}&user={ROLE}"},
    ),
    Bad("restore {folder}/absent", "there is no such file. Name a file that", FAILED),
    Bad("restore {file}", "it is no backup. Name a file that", FAILED),
    Bad("prune --snapshot-days 0", "0 is not in the range"),
    Bad("migrate --partitions 3", "has tables with 2 partitions, and keeps that number"),
    Bad("database reader bob --password-file {folder}/absent", "does not exist"),
    Bad(f"metrics --port 0 --host {FOREIGN}", f"cannot listen on {FOREIGN}", FAILED),
    Bad("sandbox load --database-url mysql://x/y", "--database-url: names the database 'mysql'"),
    Bad("sandbox live --from 2999-01-01", "--from is 2999-01-01, after today"),
    Bad("sandbox live --from 2026-03-10 --until 2026-03-09", "--until is 2026-03-09, before the first day, 2026-03-10"),
]

OF_SERVICE = [
    Bad(f"service user list --database-url postgresql://a:1/{SECRET}@h/x", "--database-url: has a user or a password"),
    Bad("service user list --database-url {url}&nope=1", "--database-url: has the parameter 'nope'"),
    Bad("service user list --replica --database-url {url}", "give one of them"),
    Bad("service user list", f"{SERVICE}: names the database 'mysql'", variables={SERVICE: f"mysql://{SECRET}@x/y"}),
    Bad("service user add bob", "e-mail address: must look like", typed=f"{SECRET} {SECRET} {SECRET}\n"),
    Bad("service user add bob@shop.example", "no password was given"),
    Bad("service user add bob@shop.example", "password: must have", typed=f"{SECRET[:4]}\n"),
    Bad("service user grant bob@shop.example de-2", "there is no user 'bob@shop.example'"),
    Bad("service application add Shop --redirect-uri ftp://x", "redirect"),
    Bad("service rates load {folder}/absent.csv", "absent.csv"),
    Bad("service rates load {file}", "cannot be used"),
    Bad("service products load {file}", "cannot be used"),
    Bad("service events --since yesterday", "'yesterday' is not a moment"),
    Bad(f"service run --port 0 --host {FOREIGN}", f"cannot listen on {FOREIGN}", FAILED),
    Bad(
        "service user add bob@shop.example",
        "can only be read",
        FAILED,
        {SERVICE: "{url}&options=-c%20default_transaction_read_only%3Don"},
        typed="four random words here\n",
    ),
]

# Of capabilities that are there.
ALL = [bad for bad in (*SETTINGS, *COMMANDS, *OF_SERVICE) if bad.command.partition(" ")[0] in command_line.COMMANDS]


@dataclass
class Shell:
    """A database, a home and a folder with a file, and what was in the database before the first input.

    Attributes:
        variables: The variables of a fresh shell.
    """

    url: str
    folder: Path
    rows: Sequence[object]
    variables: Mapping[str, str]

    def filled(self, text: str) -> str:
        """Return a text with the URL, the folder and the file in it."""
        server, _, rest = self.url.rpartition("/")
        socket = f"?{rest.partition('?')[2]}"
        names = {"url": self.url, "folder": self.folder, "file": self.folder / "file.csv"}
        for name, value in {**names, "server": server, "socket": socket}.items():
            text = text.replace(f"{{{name}}}", str(value))
        return text

    def files(self) -> dict[Path, bytes | None]:
        """Return what every file holds, by path; of a folder None."""
        return {path: path.read_bytes() if path.is_file() else None for path in self.folder.rglob("*")}


def _rows(url: str) -> Sequence[object]:
    statement = "SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_schema)'"
    with psycopg.connect(url) as connection:
        tables = sorted(connection.execute(statement).fetchall())
        digest = sql.SQL("SELECT {}, md5(array_agg(row::text ORDER BY row::text)::text) FROM {} AS row")
        parts = [digest.format(f"{schema}.{name}", sql.Identifier(schema, name)) for schema, name in tables]
        return sorted(connection.execute(sql.SQL(" UNION ALL ").join(parts)).fetchall(), key=str)


@pytest.fixture(scope="module")
def database_with_rows(databases: Databases) -> Iterator[tuple[str, Sequence[object]]]:
    """The URL of a database with a role that has no right, and what is in it."""
    with databases.lent() as database:
        database.execute(text(f"CREATE ROLE {ROLE} LOGIN"))
        yield database.url, _rows(database.url)
        database.execute(text(f"DROP ROLE {ROLE}"))


@pytest.fixture
def shell(database_with_rows: tuple[str, Sequence[object]], tmp_path: Path) -> Shell:
    url, rows = database_with_rows
    (tmp_path / "file.csv").write_text("no,such,columns\n1,2,3\n")
    secret_box(tmp_path / "home", None)
    urls = {"SELLER_PLATFORM_DATABASE_URL": url, "SELLER_PLATFORM_SERVICE_DATABASE_URL": url}
    return Shell(url, tmp_path, rows, environment(tmp_path / "home", **urls))


@pytest.mark.parametrize("bad", ALL, ids=lambda bad: f"{bad.command} {bad.words}"[:60])
def test_a_bad_input_ends_with_a_sentence_and_changes_nothing(shell: Shell, bad: Bad) -> None:
    changed = {name: shell.filled(value) for name, value in bad.variables.items()}
    before = shell.files()

    ended = run_here(
        [shell.filled(word) for word in bad.command.split(" ")],
        {**shell.variables, **changed},
        folder=shell.folder,
        typed=bad.typed,
    )

    text = ended.stdout + ended.stderr
    assert ended.returncode == bad.code, text
    assert " ".join(shell.filled(bad.words).split()) in " ".join(text.split())
    assert "Traceback" not in text
    assert SECRET not in text
    assert "pydantic" not in text
    assert "Input should" not in text
    assert (shell.files(), _rows(shell.url)) == (before, shell.rows)
    assert not os.path.lexists(shell.folder / ".seller_platform")
