"""Tests that large answers are compressed on request, except answers with secrets."""

import gzip
import json

import httpx
import pytest

from seller_platform_tests.support.served import ANN, PASSWORD, Served, submit

SMALLEST = 1 << 10
LIST = "/warehouse/list?account_title=Shop%20US&per_page=100"


def _raw(client: httpx.Client, path: str, accepted: str | None, method: str = "GET") -> tuple[httpx.Response, bytes]:
    """Return an answer and its body before decompression."""
    headers = {"Accept-Encoding": accepted} if accepted is not None else {}
    request = client.build_request(method, path, headers=headers)
    if accepted is None:
        del request.headers["Accept-Encoding"]
    answer = client.send(request, stream=True)
    body = b"".join(answer.iter_raw())
    answer.close()
    return answer, body


def test_a_large_list_is_compressed_for_those_who_accept_it(reading: Served) -> None:
    with reading.client(ANN) as client:
        plain, plain_body = _raw(client, LIST, "identity")
        packed, packed_body = _raw(client, LIST, "gzip, deflate, br")
        unasked, _ = _raw(client, LIST, None)

    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) == len(packed_body) < len(plain_body) / 2
    assert json.loads(gzip.decompress(packed_body)) == json.loads(plain_body)
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in unasked.headers
    assert {answer.headers["vary"] for answer in (plain, packed, unasked)} == {"Authorization, Accept-Encoding"}


@pytest.mark.parametrize(
    "path", ["/docs", "/openapi.json", "/static/style.css", "/favicon.ico", "/.well-known/oauth-authorization-server"]
)
def test_a_document_for_everybody_is_kept_by_caches_for_an_hour(reading: Served, path: str) -> None:
    with reading.client() as client:
        plain, plain_body = _raw(client, path, "identity")
        packed, packed_body = _raw(client, path, "gzip")
        tag = plain.headers["etag"]
        unchanged = client.get(path, headers={"If-None-Match": f'"other", {tag}'})
        changed = client.get(path, headers={"If-None-Match": '"other"'})

    for answer in (plain, packed, unchanged):
        assert answer.headers["cache-control"] == "public, max-age=3600"
        assert answer.headers["etag"] == tag
    assert "content-encoding" not in plain.headers
    assert ("content-encoding" in packed.headers) is (len(plain_body) >= SMALLEST)
    assert len(packed_body) == int(packed.headers["content-length"]) <= len(plain_body)
    assert (gzip.decompress(packed_body) if "content-encoding" in packed.headers else packed_body) == plain_body
    assert (unchanged.status_code, unchanged.content, changed.content) == (304, b"", plain_body)


def test_answers_with_secrets_are_not_compressed(reading: Served) -> None:
    with reading.client() as browser, reading.client() as other:
        login, body = _raw(browser, "/login", "gzip")
        assert len(body) > SMALLEST
        submit(browser, browser.get("/login"), email=ANN, password=PASSWORD)
        developers, _ = _raw(browser, "/admin/developers", "gzip")
        tokens = reading.exchange(browser, reading.code(other))

    for answer in (login, developers, tokens):
        assert answer.headers["cache-control"] == "no-store"
        assert "content-encoding" not in answer.headers
