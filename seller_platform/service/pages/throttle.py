"""Limits failed logins of a network address, and those of a user.

So many failures within 15 minutes lock the address or the user until the 15 minutes are over. PostgreSQL counts the
attempts for all processes together. An attempt is counted before its password is checked, in one statement, so that
simultaneous attempts cannot exceed the limit. One that is refused is uncounted. So is a successful login, which deletes
the failures of the user.
"""

import math
from dataclasses import dataclass
from datetime import timedelta

from seller_platform.counts import count_of
from seller_platform.errors import TooManyAttemptsError
from seller_platform.service.http.addresses import network_of
from seller_platform.service.pool import Connection

WINDOW = timedelta(minutes=15)
MOST_OF_AN_ADDRESS = 10
MOST_OF_A_USER = 20

# An end that is further away than the window was written before the clock was set back.
_COUNT = """
INSERT INTO service.login_attempts AS kept (subject, failures, expires_at)
SELECT subject, 1, clock_timestamp() + %(window)s FROM unnest(%(subjects)s::text[]) AS subject
ON CONFLICT (subject) DO UPDATE SET (failures, expires_at) = (
    SELECT CASE WHEN is_current THEN kept.failures + 1 ELSE 1 END,
           CASE WHEN is_current THEN kept.expires_at ELSE clock_timestamp() + %(window)s END
    FROM (SELECT kept.expires_at BETWEEN clock_timestamp() AND clock_timestamp() + %(window)s AS is_current) AS counted
)
RETURNING failures, extract(epoch FROM expires_at - clock_timestamp())
"""
_GIVE_BACK = "UPDATE service.login_attempts SET failures = failures - 1 WHERE subject = ANY(%s) AND failures > 0"
_FORGET = "DELETE FROM service.login_attempts WHERE subject = %s"


@dataclass(frozen=True)
class Attempt:
    """An attempt to log in, and the subjects by which it is counted.

    Attributes:
        failures_of_account: How many attempts of the user are counted, with this one.
        failures_of_address: How many of the address.
    """

    account: str
    address: str
    failures_of_account: int
    failures_of_address: int


async def begin_attempt(connection: Connection, user: str, address: str) -> Attempt:
    """Count an attempt to log in as failed, until `forgive` uncounts it.

    Raises:
        TooManyAttemptsError: There were too many attempts; it says when the next is allowed.
    """
    by_account, by_address = subjects = [f"account {user}", f"address {network_of(address)}"]
    counted = await connection.execute(_COUNT, {"subjects": subjects, "window": WINDOW})
    of_account, of_address = await counted.fetchall()
    allowed = ((of_account, MOST_OF_A_USER), (of_address, MOST_OF_AN_ADDRESS))
    if waits := [seconds for (failures, seconds), most in allowed if failures > most]:
        await connection.execute(_GIVE_BACK, (subjects,))
        seconds = max(1, math.ceil(max(waits)))
        text = count_of(math.ceil(seconds / 60), "minute") if seconds > 60 else count_of(seconds, "second")
        raise TooManyAttemptsError(
            f"There were too many attempts to log in. Try again in {text}.", retry_after_seconds=seconds
        )
    return Attempt(by_account, by_address, of_account[0], of_address[0])


async def forgive(connection: Connection, attempt: Attempt) -> None:
    """Delete the failures of the user, and uncount the attempt of the address."""
    await connection.execute(_FORGET, (attempt.account,))
    await connection.execute(_GIVE_BACK, ([attempt.address],))
