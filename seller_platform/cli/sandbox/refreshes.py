"""Requests a refresh for each day of a live sandbox, in the Dagster deployment of `dev`.

Dagster's schedules follow the clock of the machine: they would read once a day what the sandbox changes every 20 s.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import httpx

from seller_platform.cli.processes import Program
from seller_platform.clocks import utc_now
from seller_platform.network import http_client

_REPOSITORY = {"repositoryName": "__repository__", "repositoryLocationName": "seller_platform"}
_START_SCHEDULE = """
mutation ($selector: ScheduleSelector!) { startSchedule(scheduleSelector: $selector) { __typename } }
"""
_UNDER_WAY = """
{
  runsOrError(filter: {statuses: [QUEUED, NOT_STARTED, STARTING, STARTED]}, limit: 1) { ... on Runs { results { id } } }
}
"""
_LAUNCH = """
mutation ($selector: JobOrPipelineSelector!) {
  launchRun(executionParams: {
    selector: $selector, executionMetadata: {tags: [{key: "user", value: "seller-platform"}]}
  }) { __typename }
}
"""
_TIMEOUT_SECONDS = 30.0
_DAY = re.compile(r"\d{4}-\d\d-\d\d ")


class LiveRefreshes:
    """Requests the job `refresh_now` whenever the sandbox has reached another day, until it has reached today.

    It switches on the schedule `orders_today`, which reads the orders of today every 15 minutes.
    """

    def __init__(self, address: str, live: Program) -> None:
        """Keep the URL of the Dagster UI, and the program that advances the sandbox: its log has a line a day."""
        self._address, self._live = address, live
        # The log may have days of an earlier `dev`.
        self._days, self._is_over, self._is_on = len(self._reached()), False, False

    def request(self) -> None:
        """Request a refresh if another day was reached, and no run is under way."""
        days = self._reached()
        if self._is_over or len(days) == self._days:
            return
        # A web server that ended is started again, and answers before it has read the code location.
        with suppress(httpx.HTTPError, KeyError):
            if not self._is_on:
                started = self._ask(_START_SCHEDULE, {**_REPOSITORY, "scheduleName": "orders_today"})
                self._is_on = started["startSchedule"]["__typename"] == "ScheduleStateResult"
            if self._is_on and not self._ask(_UNDER_WAY)["runsOrError"]["results"]:
                launched = self._ask(_LAUNCH, {**_REPOSITORY, "jobName": "refresh_now"})
                if launched["launchRun"]["__typename"] == "LaunchRunSuccess":
                    self._days, self._is_over = len(days), days[-1].startswith(str(utc_now().date()))

    def _reached(self) -> list[str]:
        """Return the lines of the days that the sandbox has reached."""
        return [line for line in self._live.log.read_text().splitlines() if _DAY.match(line)]

    def _ask(self, query: str, selector: Mapping[str, str] | None = None) -> dict[str, Any]:
        body = {"query": query, "variables": {} if selector is None else {"selector": selector}}
        with http_client(self._address, timeout=_TIMEOUT_SECONDS) as http:
            answer = http.post(f"{self._address}/graphql", json=body).raise_for_status()
        return cast("dict[str, Any]", answer.json()["data"] or {})
