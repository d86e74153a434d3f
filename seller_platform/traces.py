"""Traces: spans of OpenTelemetry for those who installed the extra and named a collector, and nothing for others.

A span tells what is named where it is opened. The instrumentation libraries of httpx, ASGI and psycopg are not used:
they tell URLs and statements as they are, and with them titles and codes. Nor is the message of an exception told. The
provider is not made the process's own, so that no library sends spans of its own through it.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_LOG = logging.getLogger(__name__)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_PROTOCOL = "http/protobuf"
_TIMEOUT_SECONDS = 3  # a collector that is away must not keep a command from ending for long

Attributes = Mapping[str, str | int | float | bool | None]


class Kind(Enum):
    """Which side of a request a span is."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CLIENT = "CLIENT"


class Span:
    """A piece of work under way; without a collector, it keeps nothing."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def tell(self, attributes: Attributes, *, name: str | None = None) -> None:
        """Tell facts; those that are None are left out.

        Args:
            name: What the span is called from now on.
        """
        if self._span is not None:
            self._span.set_attributes(_known(attributes))
            if name is not None:
                self._span.update_name(name)

    def fail(self, error_type: str) -> None:
        """Tell that the work failed, and with what kind of error."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_attribute("error.type", error_type)
            self._span.set_status(StatusCode.ERROR)


_NOTHING = Span()
_provider: "TracerProvider | None" = None


def send_traces(service_name: str, environment: Mapping[str, str]) -> bool:
    """Send the spans of this process to the collector that the environment names, and tell whether any are sent.

    All of OpenTelemetry's own variables hold: of the exporter, the sampler and the resource.

    Args:
        service_name: What the process is called where OTEL_SERVICE_NAME is not set.
    """
    global _provider  # noqa: PLW0603  # a process has one
    if _provider is None and _is_wanted(environment):
        try:
            _provider = _new_provider(service_name, environment)
        except ImportError:
            _LOG.info("no traces are sent: that takes the extra, seller-platform[opentelemetry]")
    return _provider is not None


def flush_traces() -> None:
    """Send the spans that wait to be sent, for a process that is about to end; those that cannot be sent are lost."""
    if _provider is not None:
        _provider.force_flush()


@contextmanager
def span(
    name: str, attributes: Attributes, *, kind: Kind = Kind.INTERNAL, headers: Mapping[str, str] | None = None
) -> Iterator[Span]:
    """Open a span for as long as the block lasts, within the one that is open here.

    Args:
        headers: Those of a request, which may name the span of another process that this is a part of.
    """
    if _provider is None:
        yield _NOTHING
        return
    from opentelemetry.trace import SpanKind

    with _provider.get_tracer("seller_platform").start_as_current_span(
        name,
        context=None if headers is None else _propagator().extract(headers),
        kind=SpanKind[kind.value],
        attributes=_known(attributes),
        record_exception=False,
        set_status_on_exception=False,
    ) as opened:
        current = Span(opened)
        try:
            yield current
        except Exception as error:
            current.fail(type(error).__name__)
            raise


def trace_headers() -> dict[str, str]:
    """Return the headers that name the open span to whom a request is sent (W3C Trace Context)."""
    carrier: dict[str, str] = {}
    if _provider is not None:
        _propagator().inject(carrier)
    return carrier


def trace_ids() -> dict[str, str]:
    """Return the ids of the open span and its trace, as logs tell them."""
    if _provider is None:
        return {}
    from opentelemetry.trace import get_current_span

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _is_wanted(environment: Mapping[str, str]) -> bool:
    if not any(environment.get(name) for name in _ENDPOINTS):
        return False
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        _LOG.warning("no traces are sent: they are sent as %s, and %s says %r", _PROTOCOL, _PROTOCOLS[-1], protocol)
    return protocol == _PROTOCOL


def _new_provider(service_name: str, environment: Mapping[str, str]) -> "TracerProvider":
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # One line for each batch that is lost is enough; it is not told of every attempt.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": service_name}
    timeout = None if any(environment.get(name) for name in _TIMEOUTS) else _TIMEOUT_SECONDS
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout)))
    return provider


def _propagator() -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator()


def _known(attributes: Attributes) -> dict[str, str | int | float | bool]:
    return {name: value for name, value in attributes.items() if value is not None}
