"""Tests that the planted mistakes fit the product as it is. The simulation looks for them every night."""

import pytest

from seller_platform_tests.simulation.mutations import MUTATIONS, Mutation, chosen


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_changes_one_line_and_leaves_it_valid(mutation: Mutation) -> None:
    text = mutation.path.read_text()

    changed = mutation.applied(text)

    compile(changed, mutation.file, "exec")
    assert len(changed.splitlines()) == len(text.splitlines())
    assert sum(new != old for new, old in zip(changed.splitlines(), text.splitlines(), strict=True)) == 1


def test_a_line_that_the_product_no_longer_has_is_reported() -> None:
    mutation = Mutation("A line is changed.", "failpoints.py", "no such line", "")

    with pytest.raises(ValueError, match=r"failpoints\.py has 'no such line' 0 times, not once"):
        mutation.applied(mutation.path.read_text())


def test_mutations_are_chosen_by_name_or_file() -> None:
    assert len(MUTATIONS) >= 30
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)
    assert list(chosen([])) == list(MUTATIONS)
    assert [each.file for each in chosen(["row lock", "grants.py"])] == ["warehouse/connections/grants.py"]
