"""Limits failed logins of a network address, and delays those of a user.

Ten failures within 15 minutes lock an address until the oldest is 15 minutes old. A user is never locked: after three
failures the next attempt has to wait 1 s, then 2 s, 4 s and so on, up to 15 minutes. A browser in which the user has
logged in before need not wait, for ten failures of its own.

PostgreSQL counts the attempts for all processes together. Attempts in the future were counted before the clock was set
back, and are ignored. An attempt is counted before its password is checked, in one statement, so that simultaneous
attempts cannot exceed the limit. A successful login is uncounted.
"""

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import LiteralString

from seller_platform.errors import TooManyAttemptsError
from seller_platform.service.http.addresses import network_of
from seller_platform.service.pool import Connection

WINDOW = timedelta(minutes=15)
MOST_OF_AN_ADDRESS = 10
MOST_WITHOUT_DELAY = 3
ALARMING_FAILURES = 10
"""After so many failures of a user, the operator is alerted."""

_LONGEST_DELAY = timedelta(minutes=15)
_COUNTED_FOR = timedelta(days=1)  # after the last failure of a user
_REMEMBERED = 14  # the failure after which the delay no longer grows, and one more


@dataclass(frozen=True)
class Attempt:
    """An attempt to log in, and the subjects by which it is counted.

    Attributes:
        browser: The subject of a known browser, which is not delayed; None for any other.
        failures_of_account: How many attempts of the user are counted, with this one.
        failures_of_address: How many of the address.
    """

    account: str
    address: str
    browser: str | None = None
    failures_of_account: int = field(default=0, compare=False)
    failures_of_address: int = field(default=0, compare=False)


# An attempt is kept after the newest ones of the window, if it is allowed.
_TAKE: LiteralString = """
INSERT INTO service.login_attempts AS kept (subject, made_at, expires_at)
VALUES (%(subject)s, ARRAY[clock_timestamp()], clock_timestamp() + %(window)s)
ON CONFLICT (subject) DO UPDATE
SET made_at = ARRAY(
        SELECT time FROM (
            SELECT time FROM unnest(kept.made_at) AS time
            WHERE time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
            ORDER BY time DESC LIMIT %(remembered)s
        ) AS newest ORDER BY time
    ) || clock_timestamp(),
    expires_at = clock_timestamp() + %(window)s
WHERE {is_allowed}
RETURNING cardinality(made_at)
"""
_TAKE_BELOW_LIMIT: LiteralString = _TAKE.replace(
    "{is_allowed}",
    """(
    SELECT count(*) FROM unnest(kept.made_at) AS time
    WHERE time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
) < %(most)s""",
)
_WAIT: LiteralString = """
SELECT extract(epoch FROM min(time) + %(window)s - clock_timestamp())
FROM service.login_attempts AS kept, unnest(kept.made_at) AS time
WHERE kept.subject = %(subject)s AND time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
"""
# When the attempt after those of `kept.made_at` is allowed. The failures are in order of time, the newest last.
_ALLOWED_AT: LiteralString = """(
    SELECT CASE WHEN count(*) >= %(free)s
        THEN max(time) + least(make_interval(secs => 2 ^ (count(*) - %(free)s)), %(longest)s)
        ELSE '-infinity' END
    FROM unnest(kept.made_at) AS time
    WHERE time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
)"""
_TAKE_AFTER_DELAY: LiteralString = _TAKE.replace("{is_allowed}", f"%(is_known)s OR {_ALLOWED_AT} <= clock_timestamp()")
_DELAY: LiteralString = f"""
SELECT extract(epoch FROM {_ALLOWED_AT} - clock_timestamp()) FROM service.login_attempts AS kept
WHERE kept.subject = %(subject)s
"""  # noqa: S608  # of constants
_GIVE_BACK = """
UPDATE service.login_attempts SET made_at = trim_array(made_at, 1)
WHERE subject = %(subject)s AND cardinality(made_at) > 0
"""
_FORGET = "DELETE FROM service.login_attempts WHERE subject = ANY(%(subjects)s)"


async def begin_attempt(connection: Connection, user: str, address: str, known_browser: str | None = None) -> Attempt:
    """Count an attempt to log in as failed, until `forgive` uncounts it.

    Args:
        known_browser: The hash of a browser in which the user has logged in before; None for any other.

    Raises:
        TooManyAttemptsError: There were too many attempts; it says when the next is allowed.
    """
    by_account, by_address = f"account {user}", f"address {network_of(address)}"
    of_address = await _take(connection, by_address, MOST_OF_AN_ADDRESS)
    if of_address is None:
        raise _too_many(await _seconds(connection, _WAIT, {"subject": by_address, "window": WINDOW}))
    by_browser = f"browser {known_browser}" if known_browser is not None else None
    if by_browser is not None and await _take(connection, by_browser, ALARMING_FAILURES) is None:
        by_browser = None
    values = {
        "subject": by_account,
        "window": _COUNTED_FOR,
        "free": MOST_WITHOUT_DELAY,
        "longest": _LONGEST_DELAY,
        "remembered": _REMEMBERED,
        "is_known": by_browser is not None,
    }
    row = await (await connection.execute(_TAKE_AFTER_DELAY, values)).fetchone()
    if row is None:
        await connection.execute(_GIVE_BACK, {"subject": by_address})
        raise _too_many(await _seconds(connection, _DELAY, values))
    return Attempt(by_account, by_address, by_browser, int(row[0]), of_address)


async def forgive(connection: Connection, attempt: Attempt) -> None:
    """Delete the failures of the user and of the browser, and uncount the attempt of the address."""
    subjects = [subject for subject in (attempt.account, attempt.browser) if subject is not None]
    await connection.execute(_FORGET, {"subjects": subjects})
    await connection.execute(_GIVE_BACK, {"subject": attempt.address})


async def _take(connection: Connection, subject: str, most: int) -> int | None:
    """Count an attempt and return how many there are; None if there are too many already."""
    values = {"subject": subject, "most": most, "window": WINDOW, "remembered": _REMEMBERED}
    row = await (await connection.execute(_TAKE_BELOW_LIMIT, values)).fetchone()
    return int(row[0]) if row is not None else None


async def _seconds(connection: Connection, statement: LiteralString, values: dict[str, object]) -> int:
    """Return how long the next attempt has to wait, at least one second."""
    row = await (await connection.execute(statement, values)).fetchone()
    return max(1, math.ceil(row[0] if row and row[0] is not None else 0))


def _too_many(seconds: int) -> TooManyAttemptsError:
    minutes = math.ceil(seconds / 60)
    wait = f"{minutes} minute{'s'[: minutes > 1]}" if seconds > 60 else f"{seconds} second{'s'[: seconds > 1]}"
    return TooManyAttemptsError(
        f"There were too many attempts to log in. Try again in {wait}.", retry_after_seconds=seconds
    )
