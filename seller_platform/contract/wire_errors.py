"""The body of an answer that refuses a request."""

from collections.abc import Mapping, Sequence

STATUS = "status"
CODE = "code"
MESSAGE = "message"
PARAMETERS = "errors"
REASON = "reason"
REPLICA = "replica"

ERROR = {
    STATUS: "Always `error`.",
    CODE: "The HTTP status of the answer.",
    MESSAGE: "What is wrong, which value was sent, and what is allowed.",
    PARAMETERS: "For each parameter that cannot be used, what is wrong with it; with status 422 only.",
    REASON: "`replica` where only the service can answer that the rows were loaded from; else absent.",
}
"""One sentence for each field."""


def error_body(
    code: int, message: str, parameters: Mapping[str, Sequence[str]] | None = None, *, reason: str | None = None
) -> dict[str, object]:
    """Return the body; `parameters` tells for each parameter what is wrong with it."""
    body: dict[str, object] = {STATUS: "error", CODE: code, MESSAGE: message}
    if parameters:
        body[PARAMETERS] = {name: list(problems) for name, problems in parameters.items()}
    if reason is not None:
        body[REASON] = reason
    return body
