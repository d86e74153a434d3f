"""Limits failed logins of a user and of a network address in a moving window.

PostgreSQL counts them for all processes together. Attempts in the future were counted before the clock was set back,
and are ignored. An attempt is counted before its password is checked, in one statement, so that simultaneous attempts
cannot exceed the limit. A successful login is uncounted.
"""

import ipaddress
import math
from dataclasses import dataclass
from datetime import timedelta

from seller_platform.errors import TooManyAttemptsError
from seller_platform.service.pool import Connection

WINDOW = timedelta(minutes=15)
MOST_OF_AN_ACCOUNT = 10
MOST_OF_AN_ADDRESS = 50

_NETWORK_BITS = 64  # of an IPv6 address; a customer of a provider may choose the rest


@dataclass(frozen=True)
class Attempt:
    """The subjects by which an attempt to log in is counted."""

    account: str
    address: str


_TAKE = """
INSERT INTO service.login_attempts AS kept (subject, made_at, expires_at)
VALUES (%(subject)s, ARRAY[clock_timestamp()], clock_timestamp() + %(window)s)
ON CONFLICT (subject) DO UPDATE
SET made_at = ARRAY(
        SELECT time FROM unnest(kept.made_at) AS time
        WHERE time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
    ) || clock_timestamp(),
    expires_at = clock_timestamp() + %(window)s
WHERE (
    SELECT count(*) FROM unnest(kept.made_at) AS time
    WHERE time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
) < %(most)s
RETURNING subject
"""
_WAIT = """
SELECT extract(epoch FROM min(time) + %(window)s - clock_timestamp())
FROM service.login_attempts AS kept, unnest(kept.made_at) AS time
WHERE kept.subject = %(subject)s AND time BETWEEN clock_timestamp() - %(window)s AND clock_timestamp()
"""
_GIVE_BACK = """
UPDATE service.login_attempts SET made_at = trim_array(made_at, 1)
WHERE subject = %(subject)s AND cardinality(made_at) > 0
"""
_FORGET = "DELETE FROM service.login_attempts WHERE subject = %(subject)s"


async def begin_attempt(connection: Connection, user: str, address: str) -> Attempt:
    """Count an attempt to log in as failed, until `forgive` uncounts it.

    Raises:
        TooManyAttemptsError: There were too many attempts; it says when the next is allowed.
    """
    attempt = Attempt(f"account {user}", f"address {_network(address)}")
    await _take(connection, attempt.address, MOST_OF_AN_ADDRESS)
    try:
        await _take(connection, attempt.account, MOST_OF_AN_ACCOUNT)
    except TooManyAttemptsError:
        await connection.execute(_GIVE_BACK, {"subject": attempt.address})
        raise
    return attempt


async def forgive(connection: Connection, attempt: Attempt) -> None:
    """Delete the failures of the user, and uncount the attempt of the address."""
    await connection.execute(_FORGET, {"subject": attempt.account})
    await connection.execute(_GIVE_BACK, {"subject": attempt.address})


async def _take(connection: Connection, subject: str, most: int) -> None:
    values = {"subject": subject, "most": most, "window": WINDOW}
    if await (await connection.execute(_TAKE, values)).fetchone() is not None:
        return
    row = await (await connection.execute(_WAIT, values)).fetchone()
    wait = max(1, math.ceil(row[0] if row and row[0] is not None else 0))
    minutes = math.ceil(wait / 60)
    raise TooManyAttemptsError(
        f"There were too many attempts to log in. Try again in {minutes} minute{'s'[: minutes > 1]}.",
        retry_after_seconds=wait,
    )


def _network(address: str) -> str:
    """Return the network that addresses of one customer share."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _NETWORK_BITS), strict=False))
