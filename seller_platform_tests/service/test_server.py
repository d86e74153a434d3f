"""Tests that the service names a port that is taken, and changes nothing before it listens."""

import logging

import pytest

from seller_platform.errors import CannotListenError
from seller_platform.service.server import run_service
from seller_platform_tests.support.served import Served


def test_a_port_that_is_taken_is_named(reading: Served) -> None:
    taken = int(reading.base_url.rpartition(":")[2])
    log = logging.getLogger("seller_platform.service")
    before = [*log.handlers]

    with pytest.raises(CannotListenError, match=f"port {taken}"):
        run_service("postgresql://nowhere/x", port=taken)

    assert log.handlers == before  # the caller's logs stay
