"""Months, as options and answers of a person."""

from datetime import date
from typing import Any

import click

from seller_platform.contract.window import read_month


class Month(click.ParamType[date]):
    """A month, written 2026-03, as its first day."""

    name = "Y-m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        try:
            return value if isinstance(value, date) else read_month(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
