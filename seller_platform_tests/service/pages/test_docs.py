"""Tests the documentation page: its steps are run, and its links lead somewhere."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from html import unescape
from pathlib import Path

import httpx
import pytest

from seller_platform.service.oauth.applications import add_application
from seller_platform_tests.support.processes import free_port
from seller_platform_tests.support.served import ANN, Served, approve_at
from seller_platform_tests.support.skipping import skip_except_in_ci
from seller_platform_tests.support.waiting import PATIENCE_SECONDS


def _blocks(service: Served) -> dict[str, str]:
    """Return the texts of the documentation that a button copies, by what it copies; of several, the last."""
    text = httpx.get(f"{service.base_url}/docs").text
    return {
        name: unescape(code)
        for name, code in re.findall(r'<pre data-copy="([^"]+)"[^>]*><code>(.*?)</code></pre>', text, re.DOTALL)
    }


@pytest.mark.parametrize("is_public", [False, True], ids=["with a secret", "without a secret"])
def test_the_documented_commands_get_a_token_and_the_next_one(service: Served, is_public: bool) -> None:
    if not all(map(shutil.which, ("bash", "curl", "openssl"))):
        skip_except_in_ci("no bash, curl or openssl found; install the Debian packages of these names")
    redirect_uri = "http://127.0.0.1:8765/callback"
    client_id, secret = add_application(service.database, "Documented", redirect_uri, is_public=is_public)
    blocks = _blocks(service)
    steps = [blocks[f"commands of step {number}"] for number in range(1, 7)]
    first = steps[0].replace("your client id", client_id).replace("your client secret", secret)
    with subprocess.Popen(["bash", "-eu"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        shell.stdin.write("\n".join([first, *steps[1:3]]) + "\necho STATE=$STATE\n")
        shell.stdin.flush()
        url, state = shell.stdout.readline().strip(), shell.stdout.readline().strip().partition("=")[2]
        answer = httpx.URL(approve_at(url)[1]).params
        fourth = steps[3].replace("the code in the address", answer["code"])
        used = "\nprintf '\\n%s\\n' $ACCESS_TOKEN\n"
        rest = "\n".join([fourth, steps[4], steps[5], used, blocks["commands for the next token"], steps[5], used])
        output, _ = shell.communicate(rest, PATIENCE_SECONDS)

    user, token, same_user, next_token = output.splitlines()
    assert httpx.URL(url).params["code_challenge_method"] == "S256"
    assert answer["state"] == state
    assert f'"email":"{ANN}"' in user
    assert same_user == user
    assert token != next_token


def test_the_documented_program_gets_a_token(service: Served, tmp_path: Path) -> None:
    redirect_uri = f"http://127.0.0.1:{free_port()}/callback"
    client_id, secret = add_application(service.database, "Documented", redirect_uri)
    text = _blocks(service)["program"].replace("your client id", client_id).replace("your client secret", secret)
    program = tmp_path / "program.py"
    program.write_text(text.replace("http://127.0.0.1:8765/callback", redirect_uri))
    environment = {**os.environ, "BROWSER": "true"}  # the program that does nothing

    with subprocess.Popen(
        [sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("Open ").strip()
        _, location = approve_at(url)
        forged = httpx.URL(location).copy_set_param("state", "forged")
        statuses = [httpx.get(address, timeout=PATIENCE_SECONDS).status_code for address in (forged, location)]
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0
    assert statuses == [200, 200]
    assert f"'email': '{ANN}'" in output


def test_every_link_of_the_menu_leads_to_one_place(reading: Served) -> None:
    text = httpx.get(f"{reading.base_url}/docs").text
    ids = Counter(re.findall(r' id="([^"]+)"', text))

    assert [name for name, count in ids.items() if count > 1] == []
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)
