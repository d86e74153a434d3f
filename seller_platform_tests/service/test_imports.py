"""Tests that folders and modules of the service are layers, and import neither client nor ingest."""

from pathlib import Path

from importlinter.cli import lint_imports


def test_the_service_keeps_its_contracts_of_imports() -> None:
    assert lint_imports(config_filename=str(Path(__file__).with_name("importlinter.toml")), no_cache=True) == 0
