"""The kinds of security events, and which of them the operator is alerted of."""

from enum import StrEnum, auto


class EventKind(StrEnum):
    """The kinds of security events; each has a counter in the metrics."""

    LOGIN_SUCCEEDED = auto()
    LOGIN_FAILED = auto()
    LOGIN_LOCKED = auto()
    LOGGED_OUT = auto()
    CONSENT_GIVEN = auto()
    CONSENT_DENIED = auto()
    CONSENT_ENDED = auto()
    GRANT_ISSUED = auto()
    GRANT_REVOKED = auto()
    CODE_REPLAYED = auto()
    REFRESH_TOKEN_REUSED = auto()
    APPLICATION_REGISTERED = auto()
    APPLICATION_DELETED = auto()
    SECRET_CREATED = auto()
    SECRET_REFUSED = auto()
    PASSWORD_CHANGED = auto()
    RESET_LINK_CREATED = auto()
    USER_ADDED = auto()
    USER_CLOSED = auto()
    USER_REOPENED = auto()
    ACCOUNTS_GRANTED = auto()
    ACCOUNTS_REVOKED = auto()
    GROUP_CHANGED = auto()
    GROUP_REMOVED = auto()


ALARMING = (EventKind.CODE_REPLAYED, EventKind.REFRESH_TOKEN_REUSED, EventKind.LOGIN_LOCKED)
"""The kinds that the operator is alerted of."""
