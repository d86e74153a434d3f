"""`seller-platform keys rotate`, where the key is in the environment, and where it is ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seller_platform.warehouse.connections.secrets import new_key
from seller_platform_tests.support import independent_upstream
from seller_platform_tests.support.processes import connect, document, foreign_environment, free_port, run

pytestmark = pytest.mark.journey


@pytest.fixture
def variables(database_url: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    with independent_upstream.open_independent_upstream(f"http://127.0.0.1:{free_port()}/back") as upstream:
        yield foreign_environment(upstream, database_url, tmp_path / "a home")


def test_a_key_of_the_environment_is_changed_in_the_order_that_is_told(variables: dict[str, str]) -> None:
    old = new_key()
    connect({**variables, "SELLER_PLATFORM_SECRET_KEY": old})
    said = run(["keys", "rotate"], {**variables, "SELLER_PLATFORM_SECRET_KEY": old})
    told = document(run(["keys", "rotate", "--json"], {**variables, "SELLER_PLATFORM_SECRET_KEY": old}))
    new = told["new_key"]

    too_early = document(run(["keys", "rotate", "--json"], {**variables, "SELLER_PLATFORM_SECRET_KEY": f"{old},{new}"}))
    changed = document(run(["keys", "rotate", "--json"], {**variables, "SELLER_PLATFORM_SECRET_KEY": f"{new},{old}"}))
    finished = run(["keys", "rotate", "--finish"], {**variables, "SELLER_PLATFORM_SECRET_KEY": new})
    with_old = run(["keys", "rotate", "--finish"], {**variables, "SELLER_PLATFORM_SECRET_KEY": old})
    synced = run(
        ["sync", "--dataset", "orders", "--from", "2026-01", "--to", "2026-01"],
        {**variables, "SELLER_PLATFORM_SECRET_KEY": new},
    )

    assert said.returncode == 0, said.stderr
    assert old not in said.stdout + said.stderr
    assert [line[:2] for line in said.stdout.splitlines()[2:]] == ["1.", "2.", "3.", "4."]
    assert "put the new one first" in too_early["next_step"]
    assert changed["encrypted"] == {"grants": 1, "client_secrets": 1, "spools": 0}
    assert "first key alone" in changed["next_step"]
    assert finished.returncode == 0, finished.stderr
    assert with_old.returncode == 5
    assert "the grant of connection 'default'" in with_old.stderr
    assert new not in with_old.stderr + finished.stdout
    assert synced.returncode == 0, synced.stderr
