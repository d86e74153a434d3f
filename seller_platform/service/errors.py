"""The errors of the service: its HTTP answers, and values that it does not keep."""

from collections.abc import Mapping, Sequence

from seller_platform.errors import RequestError


class DuplicateUserError(RequestError):
    """A user with that e-mail address exists already."""

    next_step = "Take another address, or grant the user more accounts."


class InvalidValueError(RequestError):
    """A user, a password or an application cannot have this value."""

    next_step = "Give another value, as the message says; four random words are a good password."


class ApiError(RequestError):
    """The service refuses a request; the error is its HTTP answer."""

    next_step = "Fix the request as `message` and `errors` of the answer say."
    status = 400

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str | None = None,
        parameters: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        """Keep the answer.

        Args:
            status: By default that of the class.
            reason: A code by which programs recognise the refusal where its status is not enough.
            parameters: What is wrong with each parameter.
        """
        self.message, self.status, self.reason = message, status or self.status, reason
        self.parameters = {name: list(problems) for name, problems in (parameters or {}).items()}
        self.headers = dict(headers or {})
        if retry_after_seconds is not None:
            self.headers["Retry-After"] = str(retry_after_seconds)
        super().__init__(message)


class UnauthorizedError(ApiError):
    """The request carries no valid bearer token (RFC 6750)."""

    next_step = "Refresh the access token, or authorise again."
    status = 401

    def __init__(self, message: str, *, error: str | None = None) -> None:
        challenge = 'Bearer realm="seller-platform"'
        if error is not None:
            challenge += f', error="{error}", error_description="{message}"'
        super().__init__(message, headers={"WWW-Authenticate": challenge})


class NotFoundError(ApiError):
    """The resource does not exist, or the caller has no access to it.

    One answer for both, so that a caller cannot find out what exists.
    """

    next_step = "Ask for something that exists and that the token's user may read."
    status = 404


class MisdirectedRequestError(ApiError):
    """The request is for a host that the service does not serve."""

    next_step = "Use the public URL of the service."
    status = 421

    def __init__(self, host: str, public_url: str | None) -> None:
        self.public_url = public_url
        step = f"use {public_url}" if public_url else "its operator sets SELLER_PLATFORM_SERVICE_PUBLIC_URL to serve it"
        super().__init__(f"the host {host!a} is not served here; {step}")


class InvalidParametersError(ApiError):
    """Parameters are missing, unknown in value, out of range or contradictory."""

    next_step = "Fix the parameters that `errors` lists."
    status = 422

    def __init__(self, parameters: Mapping[str, Sequence[str]]) -> None:
        told = "; ".join(f"{name} {problem}" for name, problems in parameters.items() for problem in problems)
        super().__init__(f"correct these parameters: {told}", parameters=parameters)


class TooManyAttemptsError(ApiError):
    """A client tries too often."""

    next_step = "Wait as long as `Retry-After` says."
    status = 429


class NotAdmittedError(ApiError):
    """The service does not begin a request, because too many are under way or were made."""

    next_step = "Wait as long as `Retry-After` says, and send fewer requests at once."
    status = 429


class TokenEndpointError(ApiError):
    """The token endpoint refuses a request (RFC 6749 section 5.2)."""

    next_step = "Fix the request as `error_description` says (RFC 6749, section 5.2)."

    def __init__(self, error: str, description: str, *, status: int = 400) -> None:
        self.error, self.status = error, status
        headers = {"WWW-Authenticate": 'Basic realm="seller-platform"'} if status == 401 else None
        super().__init__(description, headers=headers)
