"""Secrets that a server issues: not stored, and found again in later requests in replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simkit.capture.cassettes import Keying, load
from simkit.capture.cassettes.lookup import Player
from simkit.capture.cassettes.saving import save
from simkit.capture.cassettes.traffic import Recorder
from simkit.core.errors import CassetteInvalid
from simkit.core.files import write_whole
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse

SID = "Zq83kPx0vBn47LmT"
ISSUED = {
    "set-cookie": ("set-cookie", f"sid={SID}; Path=/; HttpOnly", {}),
    "mcp-session-id": ("mcp-session-id", SID, {}),
    "x-auth-token": ("x-auth-token", SID, {}),
    "body": ("x-next-page", "2", {"access_token": SID}),
}


def request(url: str, body: object = None) -> HttpRequest:
    content = b"" if body is None else json.dumps(body).encode()
    return HttpRequest(
        "POST", f"http://tool/{url}", (("content-type", "application/json"),), content
    )


def response(body: object, *headers: tuple[str, str]) -> HttpResponse:
    return HttpResponse(200, headers, (json.dumps(body).encode(),))


@pytest.mark.parametrize("way", ISSUED)
def test_a_secret_of_a_response_is_found_again_wherever_later_requests_have_it(
    way: str, tmp_path: Path
) -> None:
    name, value, body = ISSUED[way]
    keying, file = Keying(Redactor({})), tmp_path / "a.yaml"
    recorder = Recorder(keying.redactor)
    exchanges = [
        (request("login"), response(body, (name, value), ("x-ratelimit-limit", "60"))),
        (request(f"rows?of={SID}"), response({"row": 1})),
        (request("rows", {"session": SID, "page": 1}), response({"echo": f"for {SID}"})),
    ]
    for question, answer in exchanges:
        recorder.end(recorder.begin("", 1, question), answer)
    save(file, recorder.interactions(), keying)

    text = file.read_text(encoding="utf-8")
    assert SID not in text
    player = Player(load(file), keying, "content")
    first = player.take("", 1, request("login"))
    headers = dict(first.headers)
    assert headers["x-ratelimit-limit"] == "60"
    given = json.loads(first.body).get("access_token") or headers[name]
    given = given.removeprefix("sid=").partition(";")[0]
    assert given.startswith("[redacted:")
    assert json.loads(player.take("", 1, request(f"rows?of={given}")).body) == {"row": 1}
    echo = player.take("", 1, request("rows", {"session": given, "page": 1}))
    assert json.loads(echo.body) == {"echo": f"for {given}"}


def test_what_a_request_held_before_is_no_news_and_short_words_are_no_secrets(
    tmp_path: Path,
) -> None:
    keying = Keying(Redactor({}))
    recorder = Recorder(keying.redactor)
    own = "Own83kPx0vBn47Lm"
    cookies = [("set-cookie", "theme=dark"), ("set-cookie", "a=1"), ("x-my-session", own)]
    for question, answer in [
        (request("login", {"mine": own}), response({}, *cookies)),
        (request("again", {"mine": own, "a": "dark 1"}), response({})),
    ]:
        recorder.end(recorder.begin("", 1, question), answer)

    first, second = recorder.interactions()
    assert second.request.body == request("again", {"mine": own, "a": "dark 1"}).body
    assert first.response.headers[:2] == (("set-cookie", "theme=dark"), ("set-cookie", "a=1"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 12345\n",
            "a.yaml:1: this is a pointer of Git LFS, and not the file: `git lfs pull` fetches it",
        ),
        (
            b"interactions:\n<<<<<<< HEAD\n- a\n=======\n- b\n>>>>>>> other\n",
            "a.yaml:2: a merge of Git left a conflict here: settle it",
        ),
    ],
)
def test_what_git_put_in_place_of_a_cassette_is_named(
    content: bytes, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(content)

    with pytest.raises(CassetteInvalid) as caught:
        load(file)

    assert str(caught.value).splitlines()[0] == f"{tmp_path}/{problem}"


def test_what_a_killed_process_left_is_swept_by_the_next(tmp_path: Path) -> None:
    dead = 2**22 + 1  # No process has such a number on Linux.
    for name in (f".a.yaml.{dead}.7.tmp", ".a.yaml.1.7.tmp", f".b.yaml.{dead}.7.tmp"):
        (tmp_path / name).write_bytes(b"")

    write_whole(tmp_path / "a.yaml", b"a", is_kept=True)

    assert sorted(file.name for file in tmp_path.iterdir()) == [
        ".a.yaml.1.7.tmp",
        f".b.yaml.{dead}.7.tmp",
        "a.yaml",
    ]
