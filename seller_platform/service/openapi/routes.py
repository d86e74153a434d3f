"""An endpoint of the API: its path, its answer, its description and its cost."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from starlette.requests import Request

from seller_platform.service.openapi.operations import Description


class Cost(StrEnum):
    """How much work a request is. Lists and heavy requests share one lane, each other cost has its own."""

    CHEAP = "cheap"
    LIST = "list"
    HEAVY = "heavy"
    DOWNLOAD = "download"


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
    cost: Cost = Cost.LIST
    resource: str | None = None
