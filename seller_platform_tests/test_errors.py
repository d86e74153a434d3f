"""Tests of what all errors have in common."""

import inspect
import pickle
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from seller_platform import errors
from seller_platform.errors import NotOfferedError, SellerPlatformError, UpstreamError
from seller_platform_tests.structure.errors import error_classes

_EXAMPLES: dict[object, Any] = {
    str: "text",
    int: 7,
    bool: True,
    float: 1.5,
    date: date(2026, 3, 1),
    datetime: datetime(2026, 3, 1, tzinfo=UTC),
    Path: Path("/folder"),
    SellerPlatformError: NotOfferedError("orders", "/sales/orders", 404),
}


_KINDS = [kind for kind in error_classes().values() if kind is not SellerPlatformError]


def _example(annotation: Any) -> Any:
    kind, parts = get_origin(annotation), get_args(annotation)
    if kind is Sequence:
        return (_example(parts[0]),)
    if kind is tuple:
        return tuple(_example(part) for part in parts)
    if kind is Mapping:
        return {_example(parts[0]): _example(parts[1])}
    return _example(parts[0]) if parts else _EXAMPLES[annotation]


def _error(kind: type[SellerPlatformError]) -> SellerPlatformError:
    hints = get_type_hints(kind.__init__)
    positional, named = [], {}
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            named[name] = _example(hints[name])
        else:
            positional.append(_example(hints[name]))
    return kind(*positional, **named)


@pytest.mark.parametrize("kind", _KINDS)
def test_an_error_is_the_same_in_another_process(kind: type[SellerPlatformError]) -> None:
    error = _error(kind)

    received = pickle.loads(pickle.dumps(error))

    assert type(received) is kind
    assert str(received) == str(error)
    assert received.exit_code == error.exit_code
    assert {name: repr(value) for name, value in vars(received).items()} == {
        name: repr(value) for name, value in vars(error).items()
    }


@pytest.mark.parametrize("kind", [kind for kind in _KINDS if UpstreamError in kind.__mro__[1:]])
def test_the_advice_of_a_failed_load_can_be_followed_in_dagster_too(kind: type[SellerPlatformError]) -> None:
    error = _error(kind)

    assert "command again" not in f"{error} {kind.next_step}"


@pytest.mark.parametrize(
    ("message", "joined"),
    [
        ("The refresh token is invalid", "The refresh token is invalid. Try again"),
        ("The refresh token is invalid.", "The refresh token is invalid. Try again"),
        ("Gone.\r\n", "Gone. Try again"),
        ("Gone!", "Gone! Try again"),
        ("Really?", "Really? Try again"),
        ("Wait…", "Wait… Try again"),
        ("Wait...", "Wait... Try again"),
        ("無効です。", "無効です。 Try again"),
        ("無効です」", "無効です」. Try again"),
        ("「無効です。」", "「無効です。」 Try again"),
        ('It says "gone."', 'It says "gone." Try again'),
        ("It says “gone”", "It says “gone”. Try again"),
        ("Gone (ask us.) ", "Gone (ask us.) Try again"),
        ("connection 'a': ", "connection 'a'. Try again"),
        ("One\ntwo\n", "One\ntwo. Try again"),
        (" \t\n", "Try again"),
        ("", "Try again"),
        ("x" * 1_000_000, f"{'x' * 1_000_000}. Try again"),
    ],
)
def test_a_message_ends_once_before_its_next_step(message: str, joined: str) -> None:
    assert errors.followed(message, "Try again") == joined
    assert str(UpstreamError(message, step="Try again.")) == joined
