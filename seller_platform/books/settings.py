"""The settings of the books."""

from pathlib import Path

from pydantic import Field, field_validator

from seller_platform.settings import Settings, absolute_path


class BooksSettings(Settings):
    """Which accounts entries are posted to."""

    journal_accounts: Path | None = Field(
        None,
        description="a YAML file with the accounts of your books, for `marts.journal_entries`; "
        "`seller-platform docs month-end` shows the default",
    )

    @field_validator("journal_accounts")
    @classmethod
    def _stored(cls, path: Path | None) -> Path | None:
        return None if path is None else absolute_path(path)
