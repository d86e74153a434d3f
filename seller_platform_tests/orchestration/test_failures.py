"""Tests that messages in the UI name what a person can do there, and accounts beside their keys."""

import re

import pytest

from seller_platform.errors import ReadingHeldError, ReportFailedError, SellerPlatformError
from seller_platform.orchestration.failures import ForeseenError
from seller_platform.warehouse.schema.unread_slices import UNREAD_SLICES

LATE = "then launch the job refresh_now, or run `seller-platform sync`."


@pytest.mark.parametrize(
    ("message", "job"),
    [
        (str(ReadingHeldError("orders", "half of them", 7)), "publish it with the job accept_held of load 7, or wait"),
        (
            str(SellerPlatformError("x", step=ReadingHeldError.next_step)),
            "publish the reading with the job accept_held",
        ),
        (f"x. {ReportFailedError.next_step}", "request it again with the job request_reports"),
        ("`env -u A H=/h seller-platform sync --dataset inventory`", "*Materialize* of its partitions"),
        (LATE, "then launch the job refresh_now."),
        ("Run `seller-platform costs apply` again", "Run the job write_costs again"),
    ],
)
def test_a_failure_names_jobs_in_place_of_commands(message: str, job: str) -> None:
    failure = ForeseenError(message, {"us-1": message})

    assert "or run `seller-platform sync`." in UNREAD_SLICES.select
    for shown in (str(failure.description), str(failure.metadata["us-1"].value)):
        assert job in shown
        assert re.findall("seller-platform (?:sync|accept|report|costs)", shown) == []
