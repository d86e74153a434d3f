"""Tests that the service names a port that is taken."""

import pytest

from seller_platform.errors import CannotListenError
from seller_platform.service.server import run_service
from seller_platform_tests.support.served import Served


def test_a_port_that_is_taken_is_named(reading: Served) -> None:
    taken = int(reading.base_url.rpartition(":")[2])

    with pytest.raises(CannotListenError, match=f"port {taken}"):
        run_service("postgresql://nowhere/x", port=taken)
