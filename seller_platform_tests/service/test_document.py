"""The OpenAPI document: valid, complete, and equal to the contract and to what is served."""

from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from seller_platform.contract import Dataset, Kind
from seller_platform.contract.endpoints import AUTHORIZE, REVOKE, TOKEN
from seller_platform.service.app import create_app
from seller_platform.service.document import example_of, operations
from seller_platform.service.lists import SERVED, ListParameters
from seller_platform_tests.service.conftest import ANN, Served

_TYPES = {
    Kind.TEXT: "string",
    Kind.INTEGER: "integer",
    Kind.MONEY: "number",
    Kind.NUMBER: "number",
    Kind.BOOLEAN: "boolean",
    Kind.DATE: "string",
    Kind.TIMESTAMP: "string",
}
_FORMATS = {Kind.DATE: "date", Kind.TIMESTAMP: "date-time"}


@pytest.fixture(scope="module")
def document(reading: Served) -> dict[str, Any]:
    answer = httpx.get(f"{reading.base_url}/openapi.json")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def _schema(operation: Any, status: str = "200") -> dict[str, Any]:
    schema: dict[str, Any] = operation["responses"][status]["content"]["application/json"]["schema"]
    return schema


def test_the_document_is_valid_openapi_3_1(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    OpenAPIV31SpecValidator(document).validate()


def test_every_route_of_the_api_is_described(document: dict[str, Any]) -> None:
    app = create_app("postgresql://nobody@127.0.0.1:1/nothing")
    served = {
        (method, route.path) for route in app.routes if isinstance(route, APIRoute) for method in route.methods or ()
    }

    described = {(method, path) for method, path, _ in operations(document)}

    assert served <= described
    assert {("POST", TOKEN), ("POST", REVOKE), ("GET", AUTHORIZE)} <= described


def test_every_operation_has_a_name_an_area_and_its_errors(document: dict[str, Any]) -> None:
    areas = {tag["name"] for tag in document["tags"]}
    names = [operation["operationId"] for _, _, operation in operations(document)]

    assert len(names) == len(set(names))
    for method, path, operation in operations(document):
        assert operation["tags"][0] in areas, path
        assert operation["summary"], path
        if operation["security"]:
            assert {"401", "503"} <= set(operation["responses"]), (method, path)
            for status in set(operation["responses"]) - {"200"}:
                assert _schema(operation, status) == {"$ref": "#/components/schemas/Error"}, (path, status)


@pytest.mark.parametrize("dataset", SERVED, ids=lambda dataset: dataset.name)
def test_parameters_and_fields_of_a_list_are_those_of_the_contract(dataset: Dataset, document: dict[str, Any]) -> None:
    operation = document["paths"][dataset.path]["get"]

    parameters = {parameter["name"]: parameter for parameter in operation["parameters"]}
    assert list(parameters) == [parameter.name for parameter in ListParameters(dataset).all]
    for parameter in ListParameters(dataset).all:
        described = parameters[parameter.name]
        assert (described["in"], described["required"]) == ("query", parameter.required)
        assert described["description"] == parameter.doc
        assert described["schema"] == dict(parameter.schema)
    if dataset.page_sizes:
        assert parameters["per_page"]["schema"]["enum"] == list(dataset.page_sizes)
    if dataset.facet:
        assert parameters[dataset.facet.parameter]["schema"]["enum"] == list(dataset.facet.values)
    envelope = _schema(operation)
    assert ("total" in envelope["properties"]) is dataset.announces_total
    fields = envelope["properties"]["data"]["items"]["properties"]
    assert list(fields) == [column.name for column in dataset.columns]
    for column in dataset.columns:
        assert fields[column.name]["description"] == column.doc
        if column.kind in _TYPES:
            wanted = [_TYPES[column.kind], "null"] if column.nullable else _TYPES[column.kind]
            assert fields[column.name]["type"] == wanted
            assert fields[column.name].get("format") == _FORMATS.get(column.kind)
    assert {"200", "401", "404", "422", "503"} <= set(operation["responses"])


def test_every_field_of_an_envelope_and_of_an_error_has_a_sentence(document: dict[str, Any]) -> None:
    for dataset in SERVED:
        for name, field in _schema(document["paths"][dataset.path]["get"])["properties"].items():
            assert field["description"].endswith("."), (dataset.name, name)
    for name, field in document["components"]["schemas"]["Error"]["properties"].items():
        assert field["description"].endswith("."), name


def test_every_example_is_allowed(document: dict[str, Any]) -> None:
    for _, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            Draft202012Validator(parameter["schema"]).validate(parameter["example"])
        for response in operation["responses"].values():
            for body in response.get("content", {}).values():
                if "$ref" not in body["schema"]:
                    Draft202012Validator(body["schema"]).validate(example_of(body["schema"]))


def test_what_is_served_is_what_is_described(reading: Served, document: dict[str, Any]) -> None:
    values = {"account_title": "Shop US", "per_page": "500", "notification_type": "price_alerts"}
    error = document["components"]["schemas"]["Error"]
    with reading.client(ANN) as client:
        for dataset in SERVED:
            operation = document["paths"][dataset.path]["get"]
            answer, refused = client.get(dataset.path, params=values), client.get(dataset.path)

            assert answer.status_code == 200, answer.text
            Draft202012Validator(_schema(operation)).validate(answer.json())
            Draft202012Validator(error).validate(refused.json())
        for path in ("/user/me", "/user/accounts", "/service-status"):
            Draft202012Validator(_schema(document["paths"][path]["get"])).validate(client.get(path).json())


def test_the_security_schemes_name_the_real_addresses(reading: Served, document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    flow = schemes["oauth2"]["flows"]["authorizationCode"]

    assert document["servers"] == [{"url": reading.base_url}]
    assert flow["authorizationUrl"] == f"{reading.base_url}/oauth/authorize"
    assert flow["tokenUrl"] == flow["refreshUrl"] == f"{reading.base_url}/oauth/token"
    assert schemes["bearer"]["scheme"] == "bearer"
    assert document["paths"]["/service-status"]["get"]["security"] == []
    for dataset in SERVED:
        assert document["paths"][dataset.path]["get"]["security"] == [{"oauth2": []}, {"bearer": []}]


def test_a_host_that_is_none_does_not_enter_the_document(reading: Served) -> None:
    for host in ("evil.example/path", 'x"y', "[", "a b"):
        document = httpx.get(f"{reading.base_url}/openapi.json", headers={"Host": host})
        assert document.status_code in (200, 400), host
        if document.status_code == 200:
            assert document.json()["servers"] == [{"url": reading.base_url}]


def test_the_documentation_page_holds_every_endpoint_and_field(reading: Served, document: dict[str, Any]) -> None:
    answer = httpx.get(f"{reading.base_url}/docs")

    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert "https://" not in _links(answer.text)
    for _, path, operation in operations(document):
        assert f'id="{operation["operationId"]}"' in answer.text
        assert path in answer.text
    for dataset in SERVED:
        for column in dataset.columns:
            assert f"data[].{column.name}<" in answer.text


def _links(text: str) -> str:
    """Return everything that a page loads or leads to."""
    return " ".join(part.partition('"')[0] for name in ('src="', 'href="') for part in text.split(name)[1:])
