"""Reads query parameters strictly: one value for each, of exactly the declared type."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args
from urllib.parse import parse_qsl

import msgspec
from msgspec import Meta

from seller_platform.counts import count_of
from seller_platform.service.errors import InvalidParametersError

Value = TypeVar("Value")

LARGEST_INTEGER = 2**63 - 1
_LONGEST_TEXT = 1_000
_LONGEST_NAME = 40
MOST_FIELDS = 200
_DIGITS = re.compile(r"[0-9]{1,19}")


def about(doc: str, *examples: object, **limits: Any) -> Meta:
    """Return what is documented of a field: a sentence, examples, and limits."""
    return Meta(description=doc, examples=[*examples] or None, **limits)


Text = Annotated[str, Meta(min_length=1, max_length=_LONGEST_TEXT)]
Count = Annotated[int, Meta(ge=1, le=LARGEST_INTEGER)]
Currency = Annotated[str, about("an ISO 4217 code such as EUR", "EUR", pattern="^[A-Z]{3}$", max_length=3)]


@dataclass(frozen=True)
class Parameter(Generic[Value]):
    """One parameter of an endpoint.

    Attributes:
        type: Its type, of which its JSON schema is made; the description of a pattern says what is allowed.
        place: Where it is sent.
    """

    name: str
    doc: str
    type: Any
    required: bool = False
    place: Literal["query", "header"] = "query"
    example: str | None = None

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """Its JSON schema."""
        schema = msgspec.json.schema(self.type)
        if "enum" in schema:  # msgspec gives no type, and sorts the values
            schema["enum"] = list(get_args(self.type))
            schema["type"] = "integer" if isinstance(schema["enum"][0], int) else "string"
        return schema

    def read(self, text: str) -> Value:
        """Return the value of a text.

        Raises:
            ValueError: The text is of another form.
        """
        sent: object = text
        if self.schema["type"] == "integer" and _DIGITS.fullmatch(text):
            sent = int(text)
        try:
            value: Value = msgspec.convert(sent, self.type)
        except msgspec.ValidationError:
            raise ValueError(f"must be {_allowed(self.schema)}; it is {shown(text)}") from None
        return value


def _allowed(schema: Mapping[str, Any]) -> str:
    """Return in words what a schema allows."""
    if "enum" in schema:
        return f"one of {', '.join(map(str, schema['enum']))}"
    if schema["type"] == "integer":
        return f"a whole number from {schema['minimum']} to {schema['maximum']}"
    if schema.get("format") == "date":
        return "a day of the calendar, written YYYY-MM-DD"
    return str(schema.get("description", f"a text of 1 to {_LONGEST_TEXT} characters"))


def choice_of(*values: str | int) -> Any:
    """Return the type of one of these values."""
    return Literal.__getitem__(values)


@dataclass(frozen=True)
class SentParameter:
    """The name and the value of a parameter that was sent."""

    name: str
    value: str


class Query:
    """The parameters of one request, and the problems with them.

    `value` reads one; `check` refuses the request with all problems at once.
    """

    def __init__(self, raw: bytes) -> None:
        self._texts: dict[str, list[str]] = {}
        self._problems: dict[str, list[str]] = {}
        try:
            pairs = parse_form(raw)
        except ValueError as error:
            raise InvalidParametersError({"query": [str(error)]}) from None
        for name, text in pairs:
            self._texts.setdefault(name, []).append(text)

    def has(self, parameter: Parameter[Value]) -> bool:
        """Whether the parameter was sent, valid or not."""
        return parameter.name in self._texts

    def join(self, sent: Mapping[str, object], parameters: Sequence[Parameter[Any]]) -> None:
        """Add parameters from a JSON body; a value sent twice must be equal."""
        for parameter in parameters:
            name, value = parameter.name, sent.get(parameter.name)
            if value is None:
                continue
            texts = self._texts.setdefault(name, [value if isinstance(value, str) else ""])
            if not isinstance(value, str):
                self.refuse(name, "must be a string")
            elif texts != [value]:
                self.refuse(name, f"is {shown(texts[0])} in the query and {shown(value)} in the body; send it once")

    def value(self, parameter: Parameter[Value]) -> Value | None:
        """Return the value; None where it was not sent, or is invalid, which `check` reports."""
        if parameter.name in self._problems:
            return None
        texts = self._texts.get(parameter.name, [])
        if not texts and not parameter.required:
            return None
        if not texts:
            problem = f"is required; it must be {_allowed(parameter.schema)}"
        elif len(texts) > 1:
            problem = f"was sent {len(texts)} times; send it once"
        elif not is_storable(texts[0]):
            problem = "must be UTF-8 without NUL characters"
        else:
            try:
                return parameter.read(texts[0])
            except ValueError as error:
                problem = str(error)
        self.refuse(parameter.name, problem)
        return None

    def only_one(self, parameters: Sequence[Parameter[Any]], subject: str, *, rule: str = "must be") -> SentParameter:
        """Return which one of these parameters was sent; none or several are a problem of the subject."""
        sent = [parameter for parameter in parameters if self.has(parameter)]
        values = [str(self.value(parameter)) for parameter in sent]
        if len(sent) != 1:
            allowed = ", ".join(parameter.name for parameter in parameters)
            names = ", ".join(parameter.name for parameter in sent) or "none of them"
            self.refuse(subject, f"{rule} exactly one of {allowed}; {names} was sent")
        return SentParameter(sent[0].name, values[0]) if sent else SentParameter(parameters[0].name, "")

    def refuse_others(self, parameters: Sequence[Parameter[Any]], body: Mapping[str, object]) -> None:
        """Add a problem for each parameter, and each field of the body, that is none of these."""
        allowed = [parameter.name for parameter in parameters]
        for place, names in (("parameter", self._texts), ("field of the body", body)):
            for name in names:
                if name not in allowed:
                    known = name if is_storable(name) and len(name) <= _LONGEST_NAME else shown(name)
                    self.refuse(known, f"is no {place} of this endpoint; allowed are {', '.join(allowed)}")

    def refuse(self, name: str, problem: str) -> None:
        """Add a problem with a parameter."""
        self._problems.setdefault(name, []).append(problem)

    def check(self) -> None:
        """Refuse the request if a parameter has a problem; the error names all problems."""
        if self._problems:
            raise InvalidParametersError(self._problems)


def parse_form(raw: bytes, most_fields: int = MOST_FIELDS) -> list[tuple[str, str]]:
    """Return the fields of a query string or a form body.

    Bytes that are not UTF-8 become lone surrogates.

    Raises:
        ValueError: There are more than allowed.
    """
    text = raw.decode("utf-8", "surrogateescape")
    try:
        return parse_qsl(text, keep_blank_values=True, errors="surrogateescape", max_num_fields=most_fields)
    except ValueError:
        raise ValueError(f"has more than {count_of(most_fields, 'field')}") from None


def parse_fields(raw: bytes, most_fields: int = MOST_FIELDS) -> dict[str, str]:
    """Return the fields of a query string or a form body, refusing repeated ones.

    Raises:
        ValueError: A field occurs twice, or is not UTF-8 without NUL characters, or there are more than allowed.
    """
    fields: dict[str, str] = {}
    for name, text in parse_form(raw, most_fields):
        if name in fields:
            raise ValueError(f"has {shown(name)} more than once")
        if not is_storable(text):
            raise ValueError(f"has {shown(name)}, which must be UTF-8 without NUL characters")
        fields[name] = text
    return fields


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold a text: Unicode without NUL and lone surrogates."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def shown(text: str) -> str:
    """Return a text quoted and shortened for a message; what is not printable is escaped."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."
