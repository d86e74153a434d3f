"""OpenTelemetry spans, sent where the extra is installed and a collector is set.

Without a collector the spans are the API's no-op spans. A span holds only the attributes that its caller names. The
instrumentation libraries of httpx, ASGI and psycopg are not used: they record whole URLs and statements, and with them
titles and codes. Messages of exceptions are not recorded either. The provider is not the process's global one, so that
libraries do not send spans through it.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry.context import attach, detach
from opentelemetry.trace import NoOpTracer, Span, SpanKind, StatusCode, Tracer, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_LOG = logging.getLogger(__name__)
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_PROTOCOL = "http/protobuf"
_TIMEOUT_SECONDS = 3  # an unreachable collector must not delay the end of a command for long
_PROPAGATOR = TraceContextTextMapPropagator()

write_trace_headers = _PROPAGATOR.inject
"""Adds the headers that name the current span to those of a request (W3C Trace Context)."""

_provider: "TracerProvider | None" = None
_tracer: Tracer = NoOpTracer()


def send_traces(service_name: str, environment: Mapping[str, str]) -> bool:
    """Send the spans of this process to the collector that the environment names.

    All of OpenTelemetry's variables apply: of the exporter, the sampler and the resource.

    Args:
        service_name: The name of the process where OTEL_SERVICE_NAME is not set.

    Returns:
        Whether spans are sent.
    """
    global _provider, _tracer  # noqa: PLW0603  # a process has one
    if _provider is None and _is_enabled(environment):
        try:
            _provider = _new_provider(service_name, environment)
        except ImportError:
            _LOG.info("no traces are sent: install the extra, seller-platform[opentelemetry]")
        else:
            _tracer = _provider.get_tracer("seller_platform")
    return _provider is not None


def flush_traces() -> None:
    """Send the queued spans before the process ends; spans that cannot be sent are lost."""
    if _provider is not None:
        _provider.force_flush()


@contextmanager
def span(
    name: str,
    attributes: Mapping[str, str | int | float],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    headers: Mapping[str, str] | None = None,
) -> Iterator[Span]:
    """Open a span for the block, as a child of the current span.

    Args:
        headers: The headers of a request, which may name a parent span in another process.
    """
    with _tracer.start_as_current_span(
        name,
        # Without a collector, the ids of other processes enter neither logs nor requests.
        context=None if headers is None or _provider is None else _PROPAGATOR.extract(headers),
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except Exception as error:
            mark_failed(current, type(error).__name__)
            raise


def mark_failed(current: Span, error_type: str) -> None:
    """Set the span's status to error, and the type of the error as an attribute."""
    current.set_attribute("error.type", error_type)
    current.set_status(StatusCode.ERROR)


@contextmanager
def continued_span(headers: Mapping[str, str]) -> Iterator[None]:
    """Let the spans of the block be children of the span that headers of another process name."""
    if _provider is None:
        yield
        return
    token = attach(_PROPAGATOR.extract(headers))
    try:
        yield
    finally:
        detach(token)


def trace_ids() -> dict[str, str]:
    """Return the ids of the current span and its trace, as logs write them."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}


def _is_enabled(environment: Mapping[str, str]) -> bool:
    if not any(environment.get(name) for name in _ENDPOINTS):
        return False
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true" or environment.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        _LOG.warning("no traces are sent: the only protocol is %s, and %s is %r", _PROTOCOL, _PROTOCOLS[-1], protocol)
    return protocol == _PROTOCOL


def _new_provider(service_name: str, environment: Mapping[str, str]) -> "TracerProvider":
    # The extra `opentelemetry` installs these.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # One line for each lost batch is enough; attempts are not logged.
    logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": service_name}
    timeout = None if any(environment.get(name) for name in _TIMEOUTS) else _TIMEOUT_SECONDS
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout)))
    return provider
