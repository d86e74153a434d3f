"""Fixture for retries without real pauses."""

import pytest

from seller_platform_tests.support.http_upstream import FakeTime


class _Nap:
    """The `sleep` of the library for retries."""

    @staticmethod
    def sleep(seconds: float) -> None:
        if FakeTime.youngest is not None:
            FakeTime.youngest.sleep(seconds)


@pytest.fixture(autouse=True)
def pauses_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time", _Nap)
