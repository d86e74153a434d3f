"""Limits the requests of a token and of a user in a minute, and the unknown tokens of a network.

Each process counts in its own memory, and allows its part.
"""

import time
from math import ceil

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter
from starlette.requests import Request

from seller_platform.counts import count_of
from seller_platform.errors import NotAdmittedError
from seller_platform.service.limits.policy import MOST_UNKNOWN_TOKENS, Limits
from seller_platform.service.metrics import note_headers

_WINDOW_SECONDS = 60
_UNKNOWN = RateLimitItemPerMinute(MOST_UNKNOWN_TOKENS, namespace="network")


class Rates:
    """The counts of one process."""

    def __init__(self, limits: Limits) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        quotas = (("token", limits.per_token), ("user", limits.per_user))
        self._quotas = [RateLimitItemPerMinute(quota, namespace=name) for name, quota in quotas if quota]
        self._policy = ", ".join(f'"{quota.namespace}";q={quota.amount};w={_WINDOW_SECONDS}' for quota in self._quotas)

    def count(self, request: Request, token_hash: bytes, user: int) -> None:
        """Count a request by its token and its user, and note the headers of its answer, also if it is refused.

        Raises:
            NotAdmittedError: A quota is used up.
        """
        members: list[str] = []
        for quota in self._quotas:
            counted = token_hash.hex() if quota.namespace == "token" else str(user)
            is_allowed = self._limiter.hit(quota, counted)
            window = self._limiter.get_window_stats(quota, counted)
            seconds = max(1, ceil(window.reset_time - time.time()))
            members.append(f'"{quota.namespace}";r={window.remaining};t={seconds}')
            note_headers(request, {"RateLimit-Policy": self._policy, "RateLimit": ", ".join(members)})
            if not is_allowed:
                problem = f"this {quota.namespace} has used its {count_of(quota.amount, 'request')}"
                raise _used_up(f"{problem} in {_WINDOW_SECONDS} seconds", seconds)

    def check_network(self, network: str) -> None:
        """Return if a network may send a token that is not known yet.

        Raises:
            NotAdmittedError: It has sent too many that nobody has.
        """
        if self._quotas and not self._limiter.test(_UNKNOWN, network):
            seconds = max(1, ceil(self._limiter.get_window_stats(_UNKNOWN, network).reset_time - time.time()))
            raise _used_up(f"your network has sent {MOST_UNKNOWN_TOKENS} tokens that are not valid", seconds)

    def count_unknown(self, network: str) -> None:
        """Count a token of a network that nobody has."""
        self._limiter.hit(_UNKNOWN, network)


def _used_up(problem: str, seconds: int) -> NotAdmittedError:
    return NotAdmittedError(f"{problem}; try again in {seconds} s", cause="quota", retry_after_seconds=seconds)
