"""An endpoint of the API: its path, its answer and its description."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from seller_platform.service.openapi.operations import Description


@dataclass(frozen=True)
class Route:
    """An endpoint: its path and method, the function that answers, and its description."""

    path: str
    answer: Callable[[Request], Any]
    description: Description
    method: str = "GET"
