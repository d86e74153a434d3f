"""The numbers of the limits, and how several processes share them.

Requests at once are divided: each process admits its part. Rates are shared: all processes count in one file.
"""

import os
from dataclasses import dataclass, replace

from seller_platform.service.http.addresses import is_loopback
from seller_platform.service.limits.lanes import WAIT_SECONDS
from seller_platform.settings import Settings

WINDOW_SECONDS = 60
DEFAULT_PER_TOKEN, DEFAULT_PER_USER, DEFAULT_PER_NETWORK = 1_200, 2_400, 600

_FEWEST_AT_ONCE, _MOST_PROCESSORS = 2, 16
_SPARE_CONNECTIONS = 4
_SANDBOX_WAIT_SECONDS = 5.0


@dataclass(frozen=True)
class ReportLimits:
    """The limits of one user's reports.

    Attributes:
        open_reports: How many may wait or be written at once.
        stored_bytes: How many bytes of rows may be stored.
        kept_days: For how many days after its request a report can be downloaded.
    """

    open_reports: int = 20
    stored_bytes: int = 1 << 30
    kept_days: int = 7


@dataclass(frozen=True)
class CostLimits:
    """The limits of stored cost periods.

    Attributes:
        of_product: How many one product of an account may have.
        of_account: How many all products of an account may have.
    """

    of_product: int = 10_000
    of_account: int = 200_000


@dataclass(frozen=True)
class Limits:
    """The limits of a process.

    Attributes:
        cheap_at_once: How many cheap requests are answered at once.
        lists_at_once: How many lists and statistics.
        downloads_at_once: How many downloads of reports; a slow client counts until it has read all.
        anonymous_at_once: How many requests without a valid token; of one network a quarter.
        wait_seconds: How long a request may wait to begin before it is refused.
        per_token: The requests of one token in a minute; 0 is no limit.
        per_user: The requests of one user in a minute, with all tokens; 0 is no limit.
        per_network: The requests of one network in a minute without a valid token; 0 is no limit.
        rates_file: The file in which several processes count; None where there is one process.
    """

    cheap_at_once: int = 8
    lists_at_once: int = 4
    downloads_at_once: int = 8
    anonymous_at_once: int = 4
    wait_seconds: float = WAIT_SECONDS
    per_token: int = 0
    per_user: int = 0
    per_network: int = 0
    rates_file: str | None = None
    reports: ReportLimits = ReportLimits()
    costs: CostLimits = CostLimits()

    @property
    def connections(self) -> int:
        """The connections to PostgreSQL that admitted requests need, with some for downloads."""
        return self.cheap_at_once + self.lists_at_once + self.anonymous_at_once + _SPARE_CONNECTIONS

    def divided(self, processes: int, rates_file: str) -> "Limits":
        """Return the limits of each of several processes, which count rates in a file."""

        def part(at_once: int) -> int:
            return max(_FEWEST_AT_ONCE, -(-at_once // processes))

        return replace(
            self,
            cheap_at_once=part(self.cheap_at_once),
            lists_at_once=part(self.lists_at_once),
            downloads_at_once=part(self.downloads_at_once),
            anonymous_at_once=part(self.anonymous_at_once),
            rates_file=rates_file,
        )


STANDARD = Limits()
"""The limits without settings, and without rates."""


def limits_of(settings: Settings, *, host: str, has_public_url: bool = False) -> Limits:
    """Return the limits of a service that listens on a host.

    Without a setting, a service that only its own machine can reach has no rate limits, and its requests wait for
    seconds before they are refused. Lists and statistics at once are as many as processors, of which PostgreSQL needs
    one for each.
    """
    processors = min(len(os.sched_getaffinity(0)), _MOST_PROCESSORS)
    is_sandbox = is_loopback(host) and not has_public_url

    def rate(setting: int | None, default: int) -> int:
        return setting if setting is not None else 0 if is_sandbox else default

    wait_milliseconds = settings.service_wait_milliseconds
    standard_wait = _SANDBOX_WAIT_SECONDS if is_sandbox else WAIT_SECONDS
    return Limits(
        cheap_at_once=settings.service_cheap_at_once,
        lists_at_once=settings.service_lists_at_once or max(_FEWEST_AT_ONCE, processors),
        wait_seconds=standard_wait if wait_milliseconds is None else wait_milliseconds / 1_000,
        per_token=rate(settings.service_requests_per_token, DEFAULT_PER_TOKEN),
        per_user=rate(settings.service_requests_per_user, DEFAULT_PER_USER),
        per_network=rate(settings.service_requests_per_network, DEFAULT_PER_NETWORK),
        reports=report_limits_of(settings),
        costs=CostLimits(
            of_product=settings.service_cost_periods_per_product,
            of_account=settings.service_cost_periods_per_account,
        ),
    )


def report_limits_of(settings: Settings) -> ReportLimits:
    """Return the limits of reports, which a report worker shares with the service."""
    return ReportLimits(
        open_reports=settings.service_open_reports,
        stored_bytes=settings.service_report_bytes,
        kept_days=settings.service_report_days,
    )
