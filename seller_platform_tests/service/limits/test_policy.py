"""Tests which limits a service has, by its settings and the host that it listens on."""

import pytest

from seller_platform.service.limits.policy import DEFAULT_PER_TOKEN, DEFAULT_PER_USER, limits_of
from seller_platform.settings import read_settings


@pytest.mark.parametrize(
    ("host", "has_public_url", "rates"),
    [
        *((host, False, (0, 0)) for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost")),
        ("0.0.0.0", False, (DEFAULT_PER_TOKEN, DEFAULT_PER_USER)),
        ("::", False, (DEFAULT_PER_TOKEN, DEFAULT_PER_USER)),
        ("127.0.0.1", True, (DEFAULT_PER_TOKEN, DEFAULT_PER_USER)),
    ],
)
def test_only_a_sandbox_on_its_own_machine_has_no_rates(
    host: str, has_public_url: bool, rates: tuple[int, int]
) -> None:
    limits = limits_of(read_settings(), host=host, has_public_url=has_public_url)

    assert (limits.per_token, limits.per_user) == rates
    assert limits.work_at_once >= 2


def test_settings_change_limits_and_processes_divide_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"REQUESTS_PER_TOKEN": "5", "REQUESTS_PER_USER": "0", "LISTS_AT_ONCE": "7"}.items():
        monkeypatch.setenv(f"SELLER_PLATFORM_SERVICE_{name}", value)

    limits, part = (limits_of(read_settings(), processes=processes) for processes in (1, 4))

    assert (limits.per_token, limits.per_user, limits.work_at_once) == (5, 0, 7)
    assert (part.per_token, part.per_user, part.work_at_once) == (2, 0, 2)
    assert part.connections < limits.connections
