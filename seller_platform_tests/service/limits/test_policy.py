"""Tests which limits a service has, by its settings and the host that it listens on."""

import pytest

from seller_platform.service.limits.policy import DEFAULT_PER_NETWORK, DEFAULT_PER_TOKEN, DEFAULT_PER_USER, limits_of
from seller_platform.settings import read_settings


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_a_sandbox_on_its_own_machine_has_no_rate_limits(host: str) -> None:
    limits = limits_of(read_settings(), host=host)

    assert (limits.per_token, limits.per_user, limits.per_network) == (0, 0, 0)
    assert limits.lists_at_once >= 2
    assert limits.wait_seconds == 5


@pytest.mark.parametrize(("host", "has_public_url"), [("0.0.0.0", False), ("::", False), ("127.0.0.1", True)])
def test_a_service_that_others_can_reach_has_rate_limits(host: str, has_public_url: bool) -> None:
    limits = limits_of(read_settings(), host=host, has_public_url=has_public_url)

    rates = (limits.per_token, limits.per_user, limits.per_network)
    assert rates == (DEFAULT_PER_TOKEN, DEFAULT_PER_USER, DEFAULT_PER_NETWORK)
    assert limits.wait_seconds < 0.1


def test_settings_change_limits_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {
        "REQUESTS_PER_TOKEN": "5",
        "REQUESTS_PER_USER": "0",
        "REQUESTS_PER_NETWORK": "9",
        "LISTS_AT_ONCE": "7",
        "WAIT_MILLISECONDS": "40",
    }
    for name, value in values.items():
        monkeypatch.setenv(f"SELLER_PLATFORM_SERVICE_{name}", value)

    limits = limits_of(read_settings(), host="127.0.0.1")

    assert (limits.per_token, limits.per_user, limits.per_network) == (5, 0, 9)
    assert (limits.lists_at_once, limits.wait_seconds) == (7, 0.04)


def test_processes_divide_requests_at_once_and_need_few_connections() -> None:
    limits = limits_of(read_settings(), host="127.0.0.1")
    part = limits.divided(4, "/counts")

    assert (part.cheap_at_once, part.rates_file) == (2, "/counts")
    assert part.connections < limits.connections
