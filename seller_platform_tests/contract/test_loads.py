"""Tests the verdicts on row counts, and their order."""

from seller_platform.contract.loads import CountVerdict


def test_a_mismatch_is_the_worst_verdict_and_a_match_the_best() -> None:
    match, mismatch, unverifiable = CountVerdict.MATCH, CountVerdict.MISMATCH, CountVerdict.UNVERIFIABLE

    assert CountVerdict.worst({match, unverifiable, mismatch}) is mismatch
    assert CountVerdict.worst({match, unverifiable}) is unverifiable
    assert CountVerdict.worst({match}) is match
