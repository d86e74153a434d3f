"""An endpoint of the API: its path, its answer, its description and its cost."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from starlette.requests import Request

from seller_platform.service.openapi.operations import Description


class Cost(StrEnum):
    """What work a request is; requests of one cost share their turns."""

    QUICK = "quick"
    PAGE = "page"
    PASSWORD = "password"  # noqa: S105  # a kind of work
    WORK = "work"


@dataclass(frozen=True)
class Route:
    """An endpoint: its path and method, the function that answers, its description and its cost.

    Attributes:
        resource: The path of the resource that a token must be for; None stands for the REST API.
    """

    path: str
    answer: Callable[[Request], Any]
    description: Description
    method: str = "GET"
    cost: Cost = Cost.WORK
    resource: str | None = None
