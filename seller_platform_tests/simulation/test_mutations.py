"""Tests that the planted mistakes fit the product as it is. The simulation looks for them every night."""

import pytest

from seller_platform_tests.simulation.mutations import MUTATIONS, Mutation


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_changes_one_line_and_leaves_it_valid(mutation: Mutation) -> None:
    text = mutation.path.read_text()

    changed = mutation.applied(text)

    compile(changed, mutation.file, "exec")
    assert len(changed.splitlines()) == len(text.splitlines())
    assert sum(new != old for new, old in zip(changed.splitlines(), text.splitlines(), strict=True)) == 1
