"""`seller-platform doctor`: checks every prerequisite, with the next step for each problem."""

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from seller_platform.capabilities import contributed
from seller_platform.cli.doctor.connection_checks import examine_connection, examine_settings_to_connect
from seller_platform.cli.doctor.findings import (
    DoctorDocument,
    Finding,
    examined,
    fail,
    failed,
    ok,
    report_findings,
    warn,
)
from seller_platform.cli.doctor.local_checks import examine_machine
from seller_platform.cli.installation import command_settings, note_home, served_upstream
from seller_platform.cli.output import Output, json_option
from seller_platform.commands import is_sandbox
from seller_platform.counts import count_of
from seller_platform.errors import unknown_schema
from seller_platform.ingest.connections.key_rotation import sealed_otherwise
from seller_platform.settings import Settings
from seller_platform.warehouse.connections.accounts import connections
from seller_platform.warehouse.connections.grants import grant_facts
from seller_platform.warehouse.connections.secrets import SecretBox, key_file, secret_box
from seller_platform.warehouse.monitoring.problems import failing, problems
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.postgres.health import (
    CONNECTIONS,
    CONNECTIONS_OF_A_RUN,
    OLDEST_VERSION,
    DatabaseHealth,
    check_health,
    most_connections,
)
from seller_platform.warehouse.postgres.location import warehouse_url
from seller_platform.warehouse.postgres.versions import revisions

_HEARTBEAT_SECONDS = 300


@click.command()
@json_option(DoctorDocument)
def doctor(*, output: Output) -> None:
    """Check every prerequisite, and print the next step for each problem.

    Nothing is changed: no schema, no grant, no key. The embedded PostgreSQL is started if it exists.
    Exit code 5 if a prerequisite is not met; warnings do not count.
    """
    report_findings(examined("settings", _examine), output)


def _examine() -> Iterator[Finding]:
    settings, now = command_settings(), datetime.now(UTC)
    note_home(settings)
    yield from examine_machine(settings, now.date())
    if settings.database_url is None and not (settings.home / "postgres" / "data").exists():
        yield ok("PostgreSQL", "the embedded server is created on first use")
        yield from examine_settings_to_connect(settings)
        return
    with served_upstream(settings):
        yield from examined("PostgreSQL", lambda: _examine_database(settings, now))


def _examine_database(settings: Settings, now: datetime) -> Iterator[Finding]:
    with Database(warehouse_url(settings), connections=4) as database:
        health = check_health(database)
        findings = list(examine_postgresql(health, database.where))
        yield from findings
        yield from examine_durability(health)
        if any(finding.is_failure for finding in findings) or health.schema is None:
            return
        for examine in contributed("examine"):
            yield from examine(database, settings)
        yield from examined("Dagster", lambda: examine_dagster(settings, database, now))
        key = settings.secret_key
        has_key = key is not None or key_file(settings.home).exists()
        box = secret_box(settings.home, key) if has_key else None  # without a key, `secret_box` would make one
        names = [each.name for each in connections(database)]
        if not names:
            yield from examine_settings_to_connect(settings)
            return
        if box is None:
            step = f"restore {key_file(settings.home)}, or set SELLER_PLATFORM_SECRET_KEY to its content"
            yield fail(
                "secrets", f"the key is missing, and {count_of(len(names), 'connection', 'was')} stored with it", step
            )
            return
        yield from examined("secrets", lambda: examine_secrets(settings, database, box))
        if unresolved := failing(problems(database), "warning"):
            kinds = ", ".join(dict.fromkeys(each.kind for each in unresolved))
            message = f"{count_of(len(unresolved), 'problem', 'is')} not resolved: {kinds}"
            yield warn("problems", message, "`seller-platform status`")
        else:
            yield ok("problems", "nothing is wrong with what is stored")
        for name in names:
            yield from examine_connection(name, settings, database, box, datetime.now(UTC))


def examine_postgresql(health: DatabaseHealth, where: str) -> Iterator[Finding]:
    """Yield whether the server can be used, and its schema is that of this version."""
    size = f"{health.size_bytes / (1 << 20):,.0f} MiB"
    if health.major < OLDEST_VERSION:
        yield fail("PostgreSQL", f"{health.version} is too old", f"use version {OLDEST_VERSION} or newer")
    elif health.is_read_only:
        yield fail("PostgreSQL", f"{where} can only be read", "point SELLER_PLATFORM_DATABASE_URL at the primary")
    else:
        yield ok("PostgreSQL", f"{health.version} at {where}, {size}")
    migrate = "`seller-platform migrate`"
    schema, newest = health.schema, revisions()[-1]
    if missing := health.missing_right:
        yield failed("schema", missing)
    elif schema is None:
        if health.may_create:
            yield warn("schema", "there is none yet", migrate)
        else:
            yield fail(
                "schema", "there is none yet, and this user may not create it", f"{migrate} as a user with that right"
            )
    elif not schema.is_usable:
        step = unknown_schema(schema.revision, first=newest).next_step
        yield fail("schema", f"version {schema} is unknown to this program", step)
    elif schema.revision < newest:
        yield fail("schema", f"version {schema}, and {newest} is needed", migrate)
    else:
        is_newer = schema.revision > newest
        yield ok("schema", f"version {schema}{', which this program may use' if is_newer else ''}")


def examine_durability(health: DatabaseHealth) -> Iterator[Finding]:
    """Yield whether a power loss of the server can lose or damage what is stored."""
    subject = "durability"
    for setting in health.unsafe:
        judge = fail if setting == "fsync" else warn
        step = f"`ALTER SYSTEM RESET {setting}` and `SELECT pg_reload_conf()` as an administrator in psql"
        yield judge(subject, f"{setting} is off: a power loss can lose or damage what is stored", step)
    if not health.unsafe:
        yield ok(subject, "what is committed is on disk")


def examine_dagster(settings: Settings, database: Database, now: datetime) -> Iterator[Finding]:
    """Yield whether Dagster's instance works, and a daemon runs."""
    # Dagster alone takes a second to import.
    from seller_platform.orchestration.instance.home import dagster_home, open_instance

    try:
        home = dagster_home(settings.home)
        with open_instance(settings.home) as instance:
            parts = instance.get_daemon_statuses().values()
            queue = instance.get_concurrency_config().run_queue_config
    except Exception as error:  # Dagster's storage raises what its libraries raise
        message = str(error).strip().partition("\n")[0]
        yield fail("Dagster", f"its instance cannot be opened: {type(error).__name__}: {message}", "fix dagster.yaml")
        return
    if (home / "dagster.yaml").exists():
        yield ok("Dagster", f"its home is {home}")
    else:
        step = "copy the project's dagster.yaml there, or unset DAGSTER_HOME"
        yield fail("Dagster", f"{home} has no dagster.yaml: events would be stored in files", step)
    silent = sorted(each.daemon_type.lower() for each in parts if each.required and not each.healthy)
    heartbeat = max((each.last_heartbeat.timestamp for each in parts if each.last_heartbeat), default=None)
    step = "start `dagster-daemon run` beside `dagster-webserver`, or `dagster dev`"
    if heartbeat is None:
        yield ok("Dagster daemon", "none ever ran here; schedules and sensors need one, `sync` does not")
    elif now.timestamp() - heartbeat > _HEARTBEAT_SECONDS and is_sandbox(settings.home):
        yield ok("Dagster daemon", "it runs while `dev` runs")
    elif now.timestamp() - heartbeat > _HEARTBEAT_SECONDS:
        message = f"its last sign of life was at {datetime.fromtimestamp(heartbeat, UTC):%Y-%m-%d %H:%M} UTC"
        yield warn("Dagster daemon", message, step)
    elif silent:
        yield warn("Dagster daemon", f"these parts give no sign of life: {', '.join(silent)}", step)
    else:
        yield ok("Dagster daemon", f"alive at {datetime.fromtimestamp(heartbeat, UTC):%H:%M:%S} UTC")
    most_runs = None if queue is None or queue.max_concurrent_runs < 0 else queue.max_concurrent_runs
    yield examine_connections(most_connections(database), most_runs)


def examine_connections(allowed: int, most_runs: int | None) -> Finding:
    """Return whether PostgreSQL allows the connections that as many runs at once need.

    Args:
        most_runs: None for any number of runs.
    """
    subject = "connections of PostgreSQL"
    if most_runs is None:
        step = "set `concurrency: runs: max_concurrent_runs` in dagster.yaml"
        return warn(subject, f"it allows {allowed}, and any number of runs may execute at once", step)
    needed = CONNECTIONS + CONNECTIONS_OF_A_RUN * most_runs
    message = f"{count_of(most_runs, 'run')} at once may need {needed}, and it allows {allowed}"
    if needed <= allowed:
        return ok(subject, message)
    step = f"set `max_connections` to {needed + 10} and restart it, or lower `max_concurrent_runs` in dagster.yaml"
    return warn(subject, message, step)


def examine_secrets(settings: Settings, database: Database, box: SecretBox) -> Iterator[Finding]:
    """Yield whether every stored secret can be decrypted."""
    locked = sealed_otherwise(database, settings.home, box)
    if locked:
        step = (
            "add the key it was stored with to SELLER_PLATFORM_SECRET_KEY, after a comma; if it is lost, run "
            "`seller-platform connect` for each of them"
        )
        yield fail("secrets", f"these cannot be decrypted: {', '.join(locked)}", step)
    else:
        yield ok("secrets", f"{count_of(len(grant_facts(database)), 'grant')} can be decrypted")
