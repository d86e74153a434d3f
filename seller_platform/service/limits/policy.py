"""The numbers of the limits, of which each of several processes has its part."""

import os
from dataclasses import dataclass

from seller_platform.service.http.addresses import is_loopback
from seller_platform.settings import Settings

DEFAULT_PER_TOKEN, DEFAULT_PER_USER = 1_200, 2_400

_FEWEST_AT_ONCE, _MOST_PROCESSORS = 2, 16
_SPARE_CONNECTIONS = 4


@dataclass(frozen=True)
class Limits:
    """The limits of a process.

    Attributes:
        quick_at_once: How many quick requests are answered at once.
        look_ups_at_once: How many unknown tokens are looked up at once.
        pages_at_once: How many pages.
        passwords_at_once: How many passwords are hashed or verified; each takes four threads and 64 MiB for a moment.
        work_at_once: How many lists, costs, reports and statistics.
        per_token: The requests of one token in a minute; 0 is no limit.
        per_user: The requests of one user in a minute, with all tokens; 0 is no limit.
        open_reports: How many reports of one user may wait or be written at once.
        report_bytes: How many bytes the stored reports of one user may take.
        report_days: For how many days after its request a report can be downloaded.
        periods_of_product: How many cost periods one product of an account may have.
        periods_of_account: How many all products of an account may have.
    """

    quick_at_once: int = 8
    look_ups_at_once: int = 2
    pages_at_once: int = 4
    passwords_at_once: int = 1
    work_at_once: int = 4
    per_token: int = 0
    per_user: int = 0
    open_reports: int = 20
    report_bytes: int = 1 << 30
    report_days: int = 7
    periods_of_product: int = 10_000
    periods_of_account: int = 200_000

    @property
    def connections(self) -> int:
        """The connections to PostgreSQL that admitted requests need, with some for downloads."""
        of_tokens = self.quick_at_once + self.look_ups_at_once
        return of_tokens + self.pages_at_once + self.passwords_at_once + self.work_at_once + _SPARE_CONNECTIONS


STANDARD = Limits()
"""The limits without settings, and without rates."""


def limits_of(
    settings: Settings, *, host: str = "127.0.0.1", has_public_url: bool = False, processes: int = 1
) -> Limits:
    """Return the limits of each process of a service that listens on a host.

    Without a setting, a service that only its own machine can reach has no limits in a minute. Lists and statistics at
    once are as many as processors, of which PostgreSQL needs one for each.
    """
    is_sandbox = is_loopback(host) and not has_public_url

    def part(number: int, fewest: int = _FEWEST_AT_ONCE) -> int:
        return max(fewest, -(-number // processes))

    def rate(setting: int | None, default: int) -> int:
        return part(setting if setting is not None else 0 if is_sandbox else default, 0)

    return Limits(
        quick_at_once=part(STANDARD.quick_at_once),
        pages_at_once=part(STANDARD.pages_at_once),
        work_at_once=part(settings.service_lists_at_once or min(len(os.sched_getaffinity(0)), _MOST_PROCESSORS)),
        per_token=rate(settings.service_requests_per_token, DEFAULT_PER_TOKEN),
        per_user=rate(settings.service_requests_per_user, DEFAULT_PER_USER),
        open_reports=settings.service_open_reports,
        report_bytes=settings.service_report_bytes,
        report_days=settings.service_report_days,
        periods_of_product=settings.service_cost_periods_per_product,
        periods_of_account=settings.service_cost_periods_per_account,
    )
