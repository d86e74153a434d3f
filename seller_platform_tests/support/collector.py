"""An OpenTelemetry collector on a loopback port that keeps the spans it receives.

It accepts OTLP over HTTP.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from seller_platform_tests.support.raw_server import Answer, Request, serving


@dataclass(frozen=True)
class Collected:
    """A received span."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    is_error: bool
    attributes: dict[str, Any]
    events: int


@dataclass
class Collector:
    """The received spans, request bodies and paths."""

    url: str = ""
    spans: list[Collected] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)

    def named(self, name: str, *, service: str | None = None) -> list[Collected]:
        return [span for span in self.spans if span.name == name and service in (None, span.service)]


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def _decoded(body: bytes) -> Iterator[Collected]:
    for resource_spans in ExportTraceServiceRequest.FromString(body).resource_spans:
        resource = {each.key: _value(each.value) for each in resource_spans.resource.attributes}
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield Collected(
                    service=resource["service.name"],
                    name=span.name,
                    kind=span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_id=span.parent_span_id.hex(),
                    is_error=span.status.code == span.status.STATUS_CODE_ERROR,
                    attributes={each.key: _value(each.value) for each in span.attributes},
                    events=len(span.events),
                )


@contextmanager
def collector() -> Iterator[Collector]:
    """Run a collector until the block ends."""
    kept = Collector()

    def answer(request: Request) -> Answer:
        kept.bodies.append(request.body)
        kept.paths.add(request.path)
        if request.path == "/v1/traces":
            kept.spans.extend(_decoded(request.body))
        return Answer(headers={"Content-Type": "application/x-protobuf"})

    with serving(answer) as server:
        kept.url = server.url
        yield kept
