"""OpenTelemetry spans, which are sent if a program is started by `opentelemetry-instrument`.

Otherwise they are the API's no-op spans, and no request names their parent. A span holds only the attributes that its
caller names. The instrumentation libraries of httpx, ASGI and psycopg are not used: they record whole URLs and
statements, and with them titles and codes. Messages of exceptions are not recorded either.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry.trace import Span, SpanKind, StatusCode, get_current_span, get_tracer, get_tracer_provider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR = TraceContextTextMapPropagator()
_TRACER = get_tracer("seller_platform")

write_trace_headers = _PROPAGATOR.inject
"""Adds the headers that name the current span to those of a request (W3C Trace Context)."""


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
    is_sent = hasattr(get_tracer_provider(), "force_flush")
    with _TRACER.start_as_current_span(
        name,
        context=_PROPAGATOR.extract(headers) if headers is not None and is_sent else None,
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


def flush_traces() -> None:
    """Send the spans that wait, before a process ends that leaves out its exit functions."""
    getattr(get_tracer_provider(), "force_flush", lambda: None)()


def trace_ids() -> dict[str, str]:
    """Return the ids of the current span and its trace, as logs write them."""
    context = get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"}
