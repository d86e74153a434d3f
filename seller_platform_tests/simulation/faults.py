"""Answers that are late, lost, cut, wrong, short, or that contradict themselves."""

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

import httpx

from seller_platform.contract.wire import TOKEN
from seller_platform_tests.simulation.scheduler import Scheduler
from seller_platform_tests.simulation.upstream import LIES, Row, UpstreamModel

_OF_ANSWERS = (
    "refused",
    "lost",
    "late",
    "cut",
    "status",
    "status after",
    "html",
    "busy",
    "other error",
    "rejected",
    "ended",
)
_OF_LISTS = ("beside", "short", "empty", "missing", "twice", "zero", "no total", "outside", "dayless", "contradiction")
_FLICKER_SECONDS = 20 * 3600
ALL_KINDS = (*_OF_ANSWERS, *_OF_LISTS, "gone")


class Faults:
    """The faults that wait for the next request.

    Args:
        kinds: What they are.
        met: Receives the name of each fault, as in `reach`.

    Attributes:
        outage: What is wrong with lists until `outage_until`: `empty`, `zero` for their amounts, or one of `LIES`.
        flickers: Whether it is over on every other day.
        lied_days: The days that lies are about: "settled" ones, the newest "two" of them, "recent" ones or "all".
    """

    def __init__(self, kinds: Sequence[str], met: set[str]) -> None:
        self._kinds, self._met = kinds, met
        self._armed: list[Random] = []
        self._churns: list[Random] = []
        self.outage, self.outage_until, self.lied_days = "empty", 0.0, "settled"
        self.flickers = False
        self.are_off = False

    def arm(self, random: Random) -> None:
        """Let the next request meet a fault."""
        self._armed.append(random)

    def arm_churn(self, random: Random) -> None:
        """Let lists change after one to three of their next pages."""
        self._churns += [random] * random.randint(1, 3)

    def churn(self, request: httpx.Request, upstream: UpstreamModel) -> Random | None:
        """Return what decides how a list changes after a page of it; None where it does not change."""
        if not self._churns or self.are_off or "page" not in request.url.params:
            return None
        return self._churns.pop() if upstream.is_sensitive(request.url.path, dict(request.url.params)) else None

    def take(self, request: httpx.Request, now: float) -> tuple[str, Random] | None:
        """Return the fault of a request, if there is one."""
        if self.are_off:
            return None
        is_wrong = not self.flickers or now // _FLICKER_SECONDS % 2 == 0
        if now < self.outage_until and is_wrong and "page" in request.url.params:
            return self.outage, Random(0)
        if not self._armed:
            return None
        random = self._armed.pop(0)
        kind = random.choice(self._kinds)
        self._met.add(f"fault {kind}")
        return kind, random


KINDS_OF_FOCUS = {
    "lists": ("late", "short", "missing", "twice", "cut", "contradiction"),
    "answers": _OF_LISTS,
    "tokens": _OF_ANSWERS,
    "reports": (*_OF_ANSWERS, "gone"),
}
"""The faults of the subject of a run; all of them, where it has none of its own."""


class FaultyTransport(httpx.BaseTransport):
    """Sends requests to the model of the upstream. Sending and receiving are yield points.

    Args:
        heard: Called with the refresh token of each answer of the token endpoint that arrives.
    """

    def __init__(
        self, scheduler: Scheduler, upstream: UpstreamModel, faults: Faults, heard: Callable[[str], None]
    ) -> None:
        self._scheduler, self._upstream, self._faults, self._heard = scheduler, upstream, faults, heard
        self._sent_twice: list[tuple[Row, ...]] = []
        self._ends = count(1)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer a request, perhaps with a fault."""
        names = ("start_date", "end_date", "sales_channel", "page", "per_page", "report_id")
        asked = (request.url.params[name] for name in names if name in request.url.params)
        self._scheduler.yield_turn("http", " ".join([request.method, request.url.path, *asked]))
        fault = self._faults.take(request, self._upstream.clock.monotonic())
        if request.url.path != TOKEN:
            self._upstream.sent.append(self._upstream.clock.now())
        if request.url.path != TOKEN and not self._faults.are_off and (fault is None or fault[0] != "refused"):
            self._upstream.requests[self._upstream.clock.now().date()] += 1
        if fault is None:
            answer, kind = self._upstream.answer(request), ""
        else:
            kind, random = fault
            answer = self._faulty(request, kind, random)
        if (churn := self._faults.churn(request, self._upstream)) is not None:
            self._upstream.change(churn, request.url.path)
        self._scheduler.yield_turn("answer", f"{answer.status_code} {kind}".rstrip())
        if kind == "lost":
            raise httpx.ReadTimeout("lost", request=request)
        if request.url.path == TOKEN and answer.status_code == 200 and kind in ("", "late"):
            self._heard(json.loads(answer.content)["refresh_token"])
        return answer

    def _faulty(  # noqa: PLR0911, PLR0912  # one answer for each fault
        self, request: httpx.Request, kind: str, random: Random
    ) -> httpx.Response:
        upstream = self._upstream
        if kind == "refused":
            self._scheduler.yield_turn("answer", kind)
            raise httpx.ConnectError("refused", request=request)
        if kind == "busy":
            return httpx.Response(random.choice((429, 503)), headers={"Retry-After": str(random.choice((1, 40)))})
        if kind == "status":
            return httpx.Response(random.choice((500, 502, 504)), content=b"<html>an error</html>")
        if kind == "other error" and request.url.path == TOKEN:
            return httpx.Response(random.choice((400, 401)), json={"error": "invalid_client"})
        if kind == "rejected" and request.url.path != TOKEN:
            return httpx.Response(random.choice((400, 403, 422)), json={"message": "rejected"})
        if kind == "gone" and "report_id" in request.url.params:
            upstream.reports.forget(request.url.params["report_id"])
        answer = upstream.answer(request)
        if kind == "status after":
            return httpx.Response(random.choice((500, 502, 504)), content=b"<html>an error</html>")
        if kind == "late":
            self._scheduler.sleep(random.choice((5.0, 50.0)))
            return answer
        if kind == "lost":
            return answer
        if kind == "cut":
            if random.random() < 0.5:
                raise httpx.RemoteProtocolError("peer closed connection", request=request)
            return httpx.Response(answer.status_code, content=answer.content[: len(answer.content) // 2])
        if kind == "ended":
            return self._ended(answer, random)
        if kind == "html":
            return httpx.Response(200, content=b"<html>Please sign in</html>")
        page = _page_of(answer)
        if page is None:
            return answer if kind in {"gone", "other error", "rejected"} else httpx.Response(503)
        return self._short(request, kind, random, page)

    def _ended(self, answer: httpx.Response, random: Random) -> httpx.Response:
        """Return an answer that ends early, each time elsewhere, with nothing that shows its length."""
        coding, body = random.choice((("identity", answer.content), ("gzip", gzip.compress(answer.content, mtime=0))))
        end = -1 - next(self._ends) % max(1, len(body) - 1)
        headers = {"Content-Type": answer.headers["Content-Type"], "Content-Encoding": coding}
        return httpx.Response(answer.status_code, headers=headers, stream=httpx.ByteStream(body[:end]))

    def _short(  # noqa: PLR0911  # one answer for each fault
        self, request: httpx.Request, kind: str, random: Random, page: Mapping[str, Any]
    ) -> httpx.Response:
        """Return a page that is not the list, or no page.

        Without totals, or with other rows than announced, only the first page is wrong: no client sees what two wrong
        pages make together.
        """
        upstream, asked = self._upstream, dict(request.url.params)
        rows = page["data"]
        if page["current_page"] > 1 and (not upstream.sends_totals or kind in {"missing", "twice"}):
            return httpx.Response(200, json=page)
        if kind == "beside":
            rest = upstream.page(request.url.path, asked, upstream.without_one(request.url.path, random))
            return httpx.Response(200, json={**rest, "status": "error", "message": "a shard is down"})
        if kind in {"missing", "twice"}:
            sent = upstream.listed(request.url.path, asked)
            changed = sent[:-1] if kind == "missing" else sent + sent[-1:]
            whole = list(upstream.rows_at(request.url.path))
            if sent:
                whole.append(sent[-1]) if kind == "twice" else whole.remove(sent[-1])
            if page.get("total", 0) in {0, len(changed)}:
                # It may be taken for the whole list: it has as many rows as announced, or is not full.
                upstream.claim(request.url.path, changed)
            # Other rows than announced are believed only when they are sent again.
            is_first = upstream.sends_totals and kind == "twice" and changed not in self._sent_twice
            if is_first:
                self._sent_twice.append(changed)
            else:
                upstream.claim(request.url.path, whole)
            return httpx.Response(200, json={**page, "data": [row.cells for row in changed]})
        if kind == "contradiction":
            less = random.choice((("total",), ("last_page",), ("total", "last_page")))
            counts = {name: max(0, page[name] - random.choice((-1, 1))) for name in less if name in page}
            return httpx.Response(200, json={**page, **counts})
        if kind == "no total":
            return httpx.Response(200, json={name: page[name] for name in ("data", "current_page")})
        if kind in {"outside", "dayless"}:
            moment = "2039-01-01T00:00:00+00:00" if kind == "outside" else None
            outside = [{**row, "purchase_date": moment, "posted_date": moment} for row in rows]
            return httpx.Response(200, json={**page, "data": rows[:-1] + outside[-1:]})
        if kind == "zero":
            zeros = [row.without_amounts for row in upstream.rows_at(request.url.path)]
            upstream.claim(request.url.path, zeros)
            upstream.claim_page(request.url.path, asked, zeros)
            return httpx.Response(200, json=upstream.page(request.url.path, asked, zeros))
        if kind in LIES:
            lied = upstream.lied(request.url.path, kind, self._faults.lied_days)
            upstream.claim_page(request.url.path, asked, lied)
            claimed = upstream.claim(request.url.path, lied)
            return httpx.Response(200, json=upstream.page(request.url.path, asked, claimed))
        kept: Sequence[Row] = () if kind == "empty" else upstream.without_one(request.url.path, random)
        upstream.claim_page(request.url.path, asked, kept)
        return httpx.Response(200, json=upstream.page(request.url.path, asked, upstream.claim(request.url.path, kept)))


def _page_of(answer: httpx.Response) -> Mapping[str, Any] | None:
    try:
        body = json.loads(answer.content)
    except ValueError:  # a report
        return None
    return body if isinstance(body, dict) and "current_page" in body else None
