"""The settings of exports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from seller_platform.settings import Settings, absolute_path

_OBJECT_STORES = ("s3", "gs", "az", "abfss")


def export_folder(folder: str) -> str:
    """Return the folder of exported tables as it is stored: an absolute path, or a URL without a slash at its end.

    Raises:
        ValueError: It is a URL of another store, without a bucket, or with keys in it; or no path. The message does not
            repeat the value.
    """
    scheme, is_url, place = folder.rstrip("/").partition("://")
    if not is_url:
        return str(absolute_path(Path(folder)))
    if scheme not in _OBJECT_STORES or not place.partition("/")[0]:
        raise ValueError(f"must be a folder, or a URL such as s3://bucket/folder ({', '.join(_OBJECT_STORES)})")
    # The URL is shown in messages and in Dagster. Of abfss, a container stands before the @.
    if any(sign in place for sign in ("?#" if scheme == "abfss" else "?#@")):
        raise ValueError("must be a URL without keys and queries; object stores take their keys from the environment")
    return f"{scheme}://{place}"


class LakeSettings(Settings):
    """Where exports lie."""

    project: ClassVar[Sequence[str]] = ("export_dir",)
    paths: ClassVar[Sequence[str]] = project

    export_dir: Annotated[str, AfterValidator(export_folder)] | None = Field(
        None,
        description="the folder where `export` and the `export/` assets write Delta tables: a path, or a URL such as "
        "`s3://bucket/folder`",
        examples=["lake"],
    )
