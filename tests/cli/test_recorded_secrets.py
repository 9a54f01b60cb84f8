"""A secret of each kind passes through a recorded run, and none of them reaches the disk."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from base64 import b64decode, b64encode
from pathlib import Path

import pytest

from simkit.capture.cassettes import load
from simkit.providers import sse
from simkit.providers.http import HttpRequest, HttpResponse
from tests.core.redact.test_everywhere import ENCODED
from tests.processes import run_python
from tests.recording import completion, provider, write

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]

ENVIRONMENT = {
    "OPENAI_API_KEY": "plain-words-that-look-like-nothing",
    "SIGNING_SECRET": 'has"quotes"and\\slashes',
    "LEDGER_ID": "listed-by-the-scenario-9",
}
HEADERS = {"authorization": "Bearer header-bearer-0001", "x-internal-signature": "header-0008"}
QUERY = {"sig": "query-sig-0003"}
BODY = {"password": "body-password-0001", "inner": json.dumps({"secret": "body-inner-0005"})}
SHAPE = "sk-proj-abcdEFGH0123456789ijkl"
ANSWERED = {"set-cookie": "sid=answer-cookie-0001"}
ANSWER_BODY = {"nested": {"private_key": "answer-private-0004"}}
ANSWER_TEXT = "postgres://admin:answer-url-0006@db.example.com/x"
HIDDEN = {
    way: encode(f"key{SHAPE}").decode().splitlines()[0]
    for way, encode in ENCODED.items()
    if "UTF-16" not in way
}
"""The same key within a word, in each encoding."""
SECRETS = [
    *ENVIRONMENT.values(), "header-bearer-0001", "header-0008", *QUERY.values(),
    "body-password-0001", "body-inner-0005", SHAPE, "answer-cookie-0001", "answer-private-0004",
    "answer-url-0006", *HIDDEN.values(),
]  # fmt: skip
"""One for each way into a recording; `tests/capture/cassettes/test_redacting.py` has forty."""
APP = f"""\
import json
import os
import urllib.request

HEADERS = {HEADERS!r}
QUERY = {QUERY!r}
BODY = {BODY!r}


def run(text):
    words = [text, json.dumps(BODY), {SHAPE!r}, *{[*HIDDEN.values()]!r}]
    words += [os.environ[n] for n in {list(ENVIRONMENT)[1:]!r}]
    messages = [{{"role": "system", "content": "You are the clerk."}},
                {{"role": "user", "content": " ".join(words)}}]
    said = []
    # A provider's own key is a dummy in replay, so it has no place in what is asked.
    headers = {{**HEADERS, "x-provider-key": os.environ["OPENAI_API_KEY"]}}
    for more in ({{}}, {{"stream": True}}):
        body = {{"model": "m", "messages": messages, "max_tokens": 77, "extra": BODY, **more}}
        query = "&".join(name + "=" + value for name, value in QUERY.items())
        request = urllib.request.Request(
            os.environ["PROVIDER"] + "/v1/chat/completions?" + query,
            json.dumps(body).encode(), {{"content-type": "application/json", **headers}},
        )
        with urllib.request.urlopen(request) as response:
            said.append(response.read().decode())
    return " ".join(said)
"""
SCENARIO = """\
version: 1
scenario: nothing leaks
pipeline: desk:run
app: {path: [.]}
agents: {clerk: You are the clerk.}
record: {secrets: [LEDGER_ID]}
cassette: desk
turns:
  - user: hello
    expect: {reply: something else, context: {clerk: {messages: [{user: something else}]}}}
"""


def answer(request: HttpRequest) -> HttpResponse:
    if json.loads(request.body).get("stream"):
        choice = {"index": 0, "delta": {"content": ANSWER_TEXT}, "finish_reason": "stop"}
        body = sse.frame({"id": "c", "choices": [choice], **ANSWER_BODY}) + sse.frame(sse.DONE)
        return HttpResponse(
            200, (("content-type", "text/event-stream"), *ANSWERED.items()), (body,)
        )
    response = completion(
        " ".join((ANSWER_TEXT, *HIDDEN.values())), usage={"prompt_tokens": 3}, **ANSWER_BODY
    )
    return HttpResponse(200, (*response.headers, *ANSWERED.items()), response.chunks)


def write_everything(result: Path) -> Path:
    """Record a run in a folder, and replay and write it in each way."""
    write(result, SCENARIO, APP)
    with provider() as server:
        server.answer = answer
        run(result, server.url, "simkit", "record", "desk.scenario.yaml", "--keep-failed")
    plugins = ("-p", "simkit.pytest_plugin", "-p", "no:cacheprovider")
    run(result, "", "pytest", "-q", *plugins, "--junitxml=junit.xml", "desk.scenario.yaml")
    for number, words in enumerate(WAYS):
        (result / f"{number}.txt").write_text(run(result, "", "simkit", *words), encoding="utf-8")
    assert b"clerk" in unfolded((result / "report.html").read_bytes())
    return result


def unfolded(page: bytes) -> bytes:
    """Return a page with what it holds compressed, behind it."""
    chunks = re.findall(b'"(eJ[A-Za-z0-9+/=]+)"', page)
    return b"\n".join((page, *(zlib.decompress(b64decode(chunk)) for chunk in chunks)))


def leaks(folder: Path) -> list[tuple[str, str]]:
    """Return each file with a secret, and the secret."""
    forms = {form for secret in SECRETS for form in (secret, json.dumps(secret)[1:-1])}
    files = [file for place in ALL for file in (folder / place, *(folder / place).rglob("*"))]
    texts = {file.name: unfolded(file.read_bytes()) for file in files if file.is_file()}
    return [(name, form) for name, text in texts.items() for form in forms if form.encode() in text]


WAYS = (
    ("replay", "desk.scenario.yaml", "--html", "report.html"),
    ("replay", "desk.scenario.yaml", "--format", "json"),
    ("replay", "desk.scenario.yaml", "--format", "github"),
    ("replay", "desk.scenario.yaml", "--show", "context"),
    ("export", "-o", "otlp.jsonl"),
)


def run(folder: Path, url: str, *words: str) -> str:
    more = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", **ENVIRONMENT}
    done = run_python("-m", *words, folder=folder, PROVIDER=url or "http://127.0.0.1:9", **more)
    return done.stdout + done.stderr


PLACES = ("cassettes", ".simkit", "junit.xml", "report.html", "otlp.jsonl")
ALL = (*PLACES, *(f"{number}.txt" for number in range(len(WAYS))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_everything(tmp_path_factory.mktemp("recorded"))


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_in_any_of_the_files_is_found(folder: Path, secret: str, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    files = [*(tmp_path / "copy" / "cassettes").iterdir()]
    files += [tmp_path / "copy" / place for place in ALL if (folder / place).is_file()]
    files += (tmp_path / "copy" / ".simkit" / "traces").iterdir()
    for file in files:
        hidden = json.dumps(f"so {secret}").encode()
        if file.suffix == ".html":
            hidden = b'"' + b64encode(zlib.compress(hidden)) + b'"'
        file.write_bytes(file.read_bytes() + hidden)

    assert {name for name, _ in leaks(tmp_path / "copy")} == {file.name for file in files}


def test_no_secret_reaches_the_disk_and_what_is_none_is_recorded_and_found_again(
    folder: Path,
) -> None:
    assert [place for place in ALL if not (folder / place).exists()] == []
    assert leaks(folder) == []

    interactions = load(folder / "cassettes" / "desk.yaml").interactions
    bodies = [json.loads(interaction.request.body) for interaction in interactions]
    assert [body["max_tokens"] for body in bodies] == [77, 77]
    assert json.loads(interactions[0].response.body)["usage"] == {"prompt_tokens": 3}
    assert len(interactions) == 2

    junit = (folder / "junit.xml").read_text(encoding="utf-8")
    assert "no recording answers" not in junit
    assert "something else" in junit
