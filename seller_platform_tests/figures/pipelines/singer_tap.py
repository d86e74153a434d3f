"""A tap of the Singer SDK for the lists, with the SDK's faster encoder of messages."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from singer_sdk import RESTStream, Tap  # type: ignore[import-not-found]  # it is no dependency of the project
from singer_sdk import typing as th
from singer_sdk.contrib.msgspec import MsgSpecWriter  # type: ignore[import-not-found]  # see above
from singer_sdk.pagination import PageNumberPaginator  # type: ignore[import-not-found]  # see above

_TYPES = {"text": th.StringType, "timestamp": th.DateTimeType, "integer": th.IntegerType, "money": th.NumberType}


class Pages(PageNumberPaginator):  # type: ignore[misc]  # the base class is not installed here
    """Ends with the last page that the list names."""

    def has_more(self, response: Any) -> bool:
        return bool(self.current_value < response.json()["last_page"])


class SellerList(RESTStream):  # type: ignore[misc]  # the base class is not installed here
    """One list, of which each account and month is a partition."""

    records_jsonpath = "$.data[*]"

    @property
    def url_base(self) -> str:
        return str(self.config["url"])

    @property
    def partitions(self) -> list[dict[str, str]]:
        return [
            {"number": number, "account": account, "first_day": first, "last_day": last}
            for number, account in self.config["accounts"].items()
            for first, last in self.config["months"]
        ]

    @property
    def emit_activate_version_messages(self) -> bool:
        """Let the target delete former rows of a list that has no key."""
        return not self.primary_keys

    def get_new_paginator(self) -> Pages:
        return Pages(1)

    def get_url_params(self, context: Any, next_page_token: int | None) -> dict[str, object]:
        days = {"start_date": context["first_day"], "end_date": context["last_day"]}
        return {"id": context["number"], **days, "per_page": self.config["per_page"], "page": next_page_token}

    def post_process(self, row: dict[str, Any], context: Any = None) -> dict[str, Any]:
        for column, kind in self.config["lists"][self.name]["columns"].items():
            if kind == "timestamp":  # the target's columns have no time zone, and drop the offset
                row[column] = datetime.fromisoformat(row[column]).astimezone(UTC).isoformat()
        row["account"] = context["account"]
        return row


class SellerTap(Tap):  # type: ignore[misc]  # the base class is not installed here
    """Sends every list of the job."""

    name = "tap-seller"
    message_writer_class = MsgSpecWriter
    config_jsonschema = th.PropertiesList(th.Property("url", th.StringType, required=True)).to_dict()

    def discover_streams(self) -> Iterable[SellerList]:
        for name, listed in self.config["lists"].items():
            columns = {**listed["columns"], "account": "text"}
            schema = th.PropertiesList(*(th.Property(column, _TYPES[kind]) for column, kind in columns.items()))
            stream = SellerList(self, name=name, schema=schema.to_dict(), path=listed["path"])
            stream.primary_keys = ["account", *listed["key"]] if listed["key"] else []
            yield stream


if __name__ == "__main__":
    SellerTap.cli()
