"""The tables of the first release. A new database gets the declared tables, and needs no migration."""

from seller_platform.warehouse.migrations.steps import MigrationStep

COMPATIBLE_FROM = "1000"
STEPS: tuple[MigrationStep, ...] = ()
