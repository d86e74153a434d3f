"""The token pair of a grant, and the PKCE challenge of its authorization."""

import base64
import hashlib
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from seller_platform.contract.wire import REFRESH_TOKEN_SECONDS

WARN_BEFORE_DEATH = timedelta(days=5)
"""How long before it stops working a grant that is not used is reported; one in use is refreshed every week."""

PAIR_ROOM_BYTES = 64 << 10
"""More disk space than any token pair takes, reserved before a refresh."""


@dataclass(frozen=True)
class TokenPair:
    """An access token and the refresh token for its successor.

    Attributes:
        generation: The number of the pair within its grant, from 1.
        authorization: Identifies the authorisation from which the pair follows; None if an older version stored it.
        client: Identifies the application, with its secret, that received the pair; empty where it is not known.
    """

    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    issued_at: datetime
    expires_in_seconds: int
    generation: int = 1
    authorization: str | None = None
    client: str = field(default="", compare=False)

    @property
    def expires_at(self) -> datetime:
        return self.issued_at + timedelta(seconds=self.expires_in_seconds)

    @property
    def dies_at(self) -> datetime:
        """When the refresh token may stop working, unless it is rotated before."""
        return self.issued_at + timedelta(seconds=REFRESH_TOKEN_SECONDS)

    def is_due(self, now: datetime) -> bool:
        """Whether half of the access token's life is over; the other half is the reserve."""
        return now >= self.issued_at + timedelta(seconds=self.expires_in_seconds / 2)


def code_challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636 section 4.2)."""
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
