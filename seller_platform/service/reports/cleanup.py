"""Deletes expired consents, sessions, login attempts, idempotency keys, security events and reports.

Rows are kept an hour longer than they are valid, so that requests under way can still read them. A used refresh token
is kept until it would have expired, and a code as long as any token issued for it: a second use of either must still
revoke the consent.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import LiteralString

from seller_platform.service.http.idempotency import KEPT_HOURS
from seller_platform.service.pool import Connection
from seller_platform.service.reports.jobs import KEPT_LONGER

_DELETIONS: Mapping[str, LiteralString] = {
    "access tokens": "DELETE FROM service.access_tokens WHERE expires_at <= now() - %(longer)s",
    "refresh tokens": "DELETE FROM service.refresh_tokens WHERE expires_at <= now() - %(longer)s",
    # Within the minute after its use, a refresh token of agents may be used again.
    "keys of successors": """
            UPDATE service.refresh_tokens SET successor_key = NULL
            WHERE successor_key IS NOT NULL AND used_at <= now() - interval '1 minute'
        """,
    # Its code, used or not, is deleted with it.
    "consents": """
            DELETE FROM service.authorizations AS consent
            WHERE consent.revoked_at <= now() - %(longer)s
               OR NOT EXISTS (SELECT FROM service.access_tokens WHERE family = consent.family)
              AND NOT EXISTS (SELECT FROM service.refresh_tokens WHERE family = consent.family)
              AND NOT EXISTS (
                    SELECT FROM service.authorization_codes
                    WHERE family = consent.family AND expires_at > now() - %(longer)s
                  )
        """,
    # A document is read again when it is needed.
    "clients with documents": """
            DELETE FROM service.applications AS client
            WHERE client.origin = 'document' AND client.registered_at <= now() - interval '1 day' - %(longer)s
              AND NOT EXISTS (SELECT FROM service.authorizations WHERE client_id = client.client_id)
        """,
    "sessions": """
            DELETE FROM service.sessions
            WHERE least(expires_at, last_used_at + make_interval(secs => idle_seconds)) <= now() - %(longer)s
        """,
    "login attempts": "DELETE FROM service.login_attempts WHERE expires_at <= now() - %(longer)s",
    "idempotency keys": """
            DELETE FROM service.idempotency_keys WHERE stored_at <= now() - %(keys_kept)s - %(longer)s
        """,
    "reset links": "DELETE FROM service.reset_links WHERE expires_at <= now() - %(longer)s",
    # The table itself keeps events for 400 days.
    "security events": "DELETE FROM service.security_events WHERE at <= now() - interval '400 days' - %(longer)s",
    "reports": "DELETE FROM service.report_jobs WHERE requested_at <= now() - %(report_kept)s - %(longer)s",
}


async def delete_expired(connection: Connection, *, kept_days: int) -> dict[str, int]:
    """Delete expired rows, and return the number of each kind.

    Args:
        kept_days: For how many days reports are kept.
    """
    values = {"longer": KEPT_LONGER, "report_kept": timedelta(days=kept_days), "keys_kept": timedelta(hours=KEPT_HOURS)}
    return {kind: (await connection.execute(statement, values)).rowcount for kind, statement in _DELETIONS.items()}
