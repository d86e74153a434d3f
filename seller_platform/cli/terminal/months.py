"""Months and moments, as options and answers of a person."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import click

from seller_platform.clocks import utc_now
from seller_platform.contract.window import read_month

_AGO = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class Month(click.ParamType[date]):
    """A month, written 2026-03, as its first day."""

    name = "Y-m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        try:
            return value if isinstance(value, date) else read_month(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Since(click.ParamType[datetime]):
    """A day or moment, in UTC where it has no offset; or how long ago it was, as 7d."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if ago := _AGO.fullmatch(str(value)):
            return utc_now() - int(ago[1]) * _UNITS[ago[2]]
        try:
            moment = datetime.fromisoformat(str(value))
            return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            self.fail(
                f"{value!r} is not a moment; write 2026-03-01, 2026-03-01T06:00+01:00, 30m, 12h or 7d", param, ctx
            )
