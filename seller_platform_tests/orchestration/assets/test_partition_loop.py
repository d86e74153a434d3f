"""Tests that a loop names failed partitions at its end and continues after them."""

import dagster as dg
import pytest

from seller_platform.errors import ReauthorizationRequiredError, RequestError, SellerPlatformError
from seller_platform.orchestration.assets.partition_loop import PartitionLoop
from seller_platform.orchestration.tags import EXIT_CODE

ERRORS = {"b": RequestError("b is wrong"), "d": ReauthorizationRequiredError("default", "it was revoked")}


def work(name: str) -> str:
    if name in ERRORS:
        raise ERRORS[name]
    return name.upper()


@pytest.fixture
def loop() -> PartitionLoop:
    return PartitionLoop(dg.build_op_context().log, "orders of ")


def test_an_item_that_fails_stops_no_other_and_is_named_at_the_end(
    loop: PartitionLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    results = list(loop.attempt("abcde", work))

    with pytest.raises(dg.Failure) as failed:
        loop.fail_partitions("orders", "loaded", 5)
    assert results == [("a", "A"), ("c", "C"), ("e", "E")]
    assert "orders of b: b is wrong" in capsys.readouterr().err
    assert failed.value.description == (
        "2 of 5 partitions of orders were not loaded: b, d. The reason of b: b is wrong. "
        "Once it is resolved, backfill the failed and missing partitions"
    )
    assert failed.value.allow_retries is False
    assert failed.value.metadata["b"].value == str(ERRORS["b"])
    assert failed.value.metadata[EXIT_CODE].value == max(error.exit_code for error in ERRORS.values())


def test_a_step_without_failures_does_not_fail(loop: PartitionLoop) -> None:
    assert [result for _, result in loop.attempt("ace", work)] == ["A", "C", "E"]

    loop.fail_partitions("orders", "loaded", 3)
    assert loop.failures == {}


def test_an_error_that_is_a_bug_ends_the_loop(loop: PartitionLoop) -> None:
    def divide(name: str) -> float:
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        list(loop.attempt("a", divide))


def test_an_error_may_be_logged_with_another_subject_than_its_name(
    loop: PartitionLoop, capsys: pytest.CaptureFixture[str]
) -> None:
    error: SellerPlatformError = RequestError("it is wrong")

    loop.add("a|2026-01-01", error, subject="orders of a, January")

    assert loop.failures == {"a|2026-01-01": error}
    assert "orders of a, January: it is wrong" in capsys.readouterr().err
