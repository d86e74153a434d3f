"""Tests that the OpenAPI document is valid, complete, and agrees with contract and service."""

import json
import re
from html import unescape
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.routing import Route as ServedRoute

from seller_platform.contract.wire import AUTHORIZE, DOCS, MCP, OPENAPI, REVOKE, TOKEN
from seller_platform.service.app import create_app
from seller_platform.service.lists.endpoints import SERVED
from seller_platform.service.oauth.approvals_page import END
from seller_platform.service.oauth.developers_page import DELETE, NEW, SECRET
from seller_platform.service.openapi import example_of
from seller_platform.service.pages.login import ACCOUNT, APPROVALS, DEVELOPERS, LOGIN, LOGOUT
from seller_platform.service.pages.password import RESET
from seller_platform.service.pages.rendering import HOME, STATIC_FILES
from seller_platform_tests.support.openapi import operations, without_references
from seller_platform_tests.support.served import Served

_OWN_PAGES = {DEVELOPERS, NEW, DELETE, SECRET, APPROVALS, END}
_ACCOUNT_PAGES = {ACCOUNT, RESET}
_PAGES = {HOME, LOGIN, LOGOUT, *_OWN_PAGES, *_ACCOUNT_PAGES, *STATIC_FILES, OPENAPI, DOCS, MCP}


@pytest.fixture(scope="module")
def document(reading: Served) -> dict[str, Any]:
    answer = httpx.get(f"{reading.base_url}/openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


@pytest.fixture(scope="module")
def inlined(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every reference replaced by its schema."""
    return without_references(document)


def test_the_document_is_valid_openapi_3_1_and_names_real_addresses(reading: Served, document: dict[str, Any]) -> None:
    flow = document["components"]["securitySchemes"]["oauth2"]["flows"]["authorizationCode"]

    OpenAPIV31SpecValidator(document).validate()
    assert document["servers"] == [{"url": reading.base_url}]
    assert flow["authorizationUrl"] == f"{reading.base_url}/oauth/authorize"
    assert flow["tokenUrl"] == flow["refreshUrl"] == f"{reading.base_url}/oauth/token"
    for dataset in SERVED:
        assert document["paths"][dataset.path]["get"]["security"] == [{"oauth2": ["read"]}, {"bearer": []}]


def test_every_route_is_described_but_those_of_pages(document: dict[str, Any]) -> None:
    app = create_app("postgresql://nobody@127.0.0.1:1/nothing")
    routes = [route for route in app.routes if isinstance(route, ServedRoute)]
    served = {(method, route.path) for route in routes for method in (route.methods or set()) - {"HEAD"}}

    described = {(method, path) for method, path, _ in operations(document)}

    assert len(routes) == len(app.routes)
    assert described <= served
    assert {("POST", TOKEN), ("POST", REVOKE), ("GET", AUTHORIZE)} <= described
    # The form of the consent page is sent to this path.
    assert {path for method, path in served - described if (method, path) != ("POST", AUTHORIZE)} == _PAGES


def test_every_operation_has_a_name_an_area_and_its_errors(document: dict[str, Any]) -> None:
    areas = {tag["name"] for tag in document["tags"]}
    names = [operation["operationId"] for _, _, operation in operations(document)]

    assert len(names) == len(set(names))
    for method, path, operation in operations(document):
        assert operation["tags"][0] in areas, path
        assert operation["summary"], path
        # A description adds to the summary what a caller must know beside parameters and fields.
        assert len(operation["description"].split()) >= 8, (method, path)
        assert operation["description"].endswith("."), (method, path)
        if operation["security"]:
            assert {"401", "503"} <= set(operation["responses"]), (method, path)
            for status in set(operation["responses"]) - {"200"}:
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Error"}, (path, status)


def test_every_parameter_and_every_field_has_a_sentence(document: dict[str, Any]) -> None:
    schemas, said = document["components"]["schemas"], dict[str, str]()
    for _, path, operation in operations(document):
        said |= {f"{path} {each['name']}": each.get("description", "") for each in operation.get("parameters", ())}
    for owner, schema in schemas.items():
        for name, field in schema.get("properties", {}).items():
            referred = schemas.get(field.get("$ref", "").rpartition("/")[2], {})
            said[f"{owner}.{name}"] = field.get("description", referred.get("description", ""))

    assert len(said) > 200
    assert [path for path, sentence in said.items() if not sentence.endswith(".")] == []


def test_every_example_is_allowed_and_means_something(inlined: dict[str, Any]) -> None:
    for _, path, operation in operations(inlined):
        examples = []
        for parameter in operation.get("parameters", ()):
            Draft202012Validator(parameter["schema"]).validate(parameter["example"])
            examples.append(parameter["example"])
        for described in (*operation["responses"].values(), operation.get("requestBody", {})):
            for kind, body in described.get("content", {}).items():
                example = example_of(body["schema"])
                Draft202012Validator(body["schema"]).validate(example)
                examples += [example] if "json" in kind else []
        assert '"text"' not in json.dumps(examples), path


def test_the_documentation_page_holds_every_endpoint_and_field(reading: Served, document: dict[str, Any]) -> None:
    answer = httpx.get(f"{reading.base_url}/docs")

    text = unescape(re.sub("<[^>]*>", "", answer.text))
    assert re.findall('(?:src|href)="([^"]*https:[^"]*)"', answer.text) == []
    for method, path, operation in operations(document):
        assert f">{method} {path}</h3>" in answer.text
        assert all(
            f"\n{status}: {each['description'].replace('`', '')}" in text
            for status, each in operation["responses"].items()
        )
    for dataset in SERVED:
        for column in dataset.columns:
            assert f"<code>data[].{column.name}</code>" in answer.text
