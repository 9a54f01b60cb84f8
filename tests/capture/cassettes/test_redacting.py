from __future__ import annotations

import base64
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.capture.cassettes import Keying, Leak, Recorder, encoded, save, scan_file
from simkit.capture.cassettes.redacting import redacted, redacted_response
from simkit.capture.cassettes.values import Cassette, Interaction, with_body
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse
from tests.capture.cassettes.requests import CHAT_URL, chat, record
from tests.capture.cassettes.test_saving import interactions

REDACTOR = Redactor({"MY_TOKEN": "aB3dE6gH9jK2"})
SSE = (("content-type", "text/event-stream; charset=utf-8"),)


def test_stream_keeps_its_pieces_and_waits_where_a_secret_goes() -> None:
    chunks = (b'data: {"password"', b': "abc"}\n\ndata: aB3d', b"E6gH9jK2\n\n", b"data: [DONE]\n\n")

    response = redacted_response(HttpResponse(200, SSE, chunks, "cut", (1, 2, 3, 4)), REDACTOR)

    assert response == HttpResponse(
        200,
        SSE,
        (
            b'data: {"password"',
            b':"[redacted:password]"}\n\ndata: [red',
            b"acted:env]\n\n",
            b"data: [DONE]\n\n",
        ),
        "cut",
        (1, 2, 3, 4),
    )


def test_response_without_secrets_is_kept_piece_by_piece() -> None:
    chunks = (b"data: \xc3", b"\xa9\n\n", b": ping\n", b"data:x\r\n\r\n")

    response = redacted_response(HttpResponse(200, SSE, chunks), REDACTOR)

    assert response.chunks == chunks


def test_response_that_loses_lines_comes_in_one_piece_after_all_the_waiting() -> None:
    response = with_body(HttpResponse(200, (), (b"a\n", b"b\n"), "", (3, 4)), b"c")

    assert response == HttpResponse(200, (), (b"c",), "", (7,))


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("Set-Cookie", "id=0123456789abcdef; HttpOnly", "id=[redacted:set_cookie]; HttpOnly"),
        ("openai-organization", "org-0123456789abcdef", "[redacted:header]"),
        ("x-next-page", "2", "2"),
        ("x-ratelimit-reset-tokens", "1m30.951s", "1m30.951s"),
        ("connection", "close", None),
        ("date", "Sun, 29 Nov 2026 08:00:00 GMT", None),
    ],
)
def test_all_headers_are_kept_without_what_may_be_secret_but_those_of_one_connection(
    name: str, value: str, stored: str | None
) -> None:
    response = redacted_response(HttpResponse(200, ((name, value), *SSE), (b"",)), REDACTOR)

    assert response.headers == (*([(name.lower(), stored)] if stored else []), *SSE)


@given(st.lists(st.binary(max_size=4) | st.sampled_from([b"\n", b"\n\n", b"ab\n"]), max_size=6),
       st.lists(st.binary(max_size=6), max_size=6))  # fmt: skip
def test_other_body_is_cut_into_as_many_pieces_or_one(
    chunks: list[bytes], new: list[bytes]
) -> None:
    response = HttpResponse(200, (), tuple(chunks))

    result = with_body(response, b"".join(new))

    assert result.body == b"".join(new)
    assert len(result.chunks) in (len(chunks), 1)


@given(interactions)
def test_redacting_an_interaction_twice_is_redacting_it_once(item: Any) -> None:
    once = redacted(item, REDACTOR)

    assert redacted(once, REDACTOR) == once


def test_headers_that_clients_act_on_are_kept_without_what_is_secret_in_them() -> None:
    headers = (
        ("Location", "https://x.com/b?page=2&key=abc"),
        ("Link", '<https://x.com/?page=3>; rel="next"'),
        ("Set-Cookie", "id=1"), ("Content-Disposition", 'attachment; filename="a.csv"'),
        ("Server", "x/1"),
    )  # fmt: skip

    response = redacted_response(HttpResponse(302, headers, (b"",)), REDACTOR)

    assert response.headers == (
        ("location", "https://x.com/b?page=2&key=[redacted:parameter]"),
        ("link", '<https://x.com/?page=3>; rel="next"'),
        ("set-cookie", "id=1"),
        ("content-disposition", 'attachment; filename="a.csv"'),
        ("server", "x/1"),
    )


TAIL = "aB3dE6gH9jK2mN5pQ8rS1tU4vW7x"
AZURE = "0123456789abcdef0123456789abcdef"


def planted(number: int) -> str:
    """A secret that no shape gives away."""
    return f"hush{number:02}hush{number * 7919:06}"


NAMED = ["api_key", "apiKey", "password", "client_secret", "access_token", "refreshToken",
         "secret", "authorization", "x-api-key", "private_key"]  # fmt: skip
HEADERS = ["authorization", "api-key", "x-api-key", "cookie", "x-goog-api-key",
           "openai-organization", "x-amz-security-token", "x-internal-user"]  # fmt: skip
QUERY = ["key", "api-key", "sig", "access_token", "X-Amz-Signature"]
SHAPED = ["sk-" + "ant-api03-" + TAIL, "sk-" + "proj-" + TAIL, "AI" + "za" + "Sy" + TAIL + TAIL,
          "AK" + "IA" + "IOSFODNN7EXAMPLE", "gh" + "p_" + TAIL, "xo" + "xb-1234-" + TAIL,
          "ey" + "JhbGciOi.eyJzdWIiOiIx.dozjgNryP4J3", "hf" + "_" + "aBcDeFgHiJkLmNoPqRsTuVwX",
          "gs" + "k_" + TAIL]  # fmt: skip
ENVIRON = {
    "AZURE_OPENAI_API_KEY": AZURE, "DB_PASSWORD": 'p"a/s s\\wörd', "VAULT_TOKEN": planted(90),
    "HMAC_SECRET": planted(91), "TENANT": planted(92), "PATH": "/bin",
}  # fmt: skip
IN_HEADERS = {name: planted(number) for number, name in enumerate(HEADERS)}
IN_QUERY = {name: planted(10 + number) for number, name in enumerate(QUERY)}
IN_BODY = {name: planted(20 + number) for number, name in enumerate(NAMED)}
IN_ANSWER = {"set-cookie": planted(30), "x-auth-token": planted(31), "openai-project": planted(32)}
VALUES = [value for name, value in ENVIRON.items() if name != "PATH"]
SECRETS = [*IN_HEADERS.values(), *IN_QUERY.values(), *IN_BODY.values(), *IN_ANSWER.values(),
           *SHAPED, *VALUES]  # fmt: skip
KEYING = Keying(Redactor(ENVIRON, ["TENANT"]))


def exchange() -> tuple[HttpRequest, HttpResponse]:
    """A request and a response that hold every secret, some several times."""
    text = f"Use {' or '.join(SHAPED)}; {', '.join(VALUES)}. Azure wants api-key: {AZURE}."
    inner = json.dumps({"credentials": {"deep": IN_BODY}, "said": text})
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": inner}}
    body = {
        "model": "gpt-5", "max_tokens": 7, **IN_BODY,
        "messages": [
            {"role": "user", "content": text}, {"role": "assistant", "tool_calls": [call]},
        ],
    }  # fmt: skip
    query = "&".join(f"{name}={quote(value)}" for name, value in IN_QUERY.items())
    request = HttpRequest(
        "POST", f"{CHAT_URL}?{query}", tuple(IN_HEADERS.items()), json.dumps(body).encode()
    )
    usage = {"usage": {"prompt_tokens": 5, "total_tokens": 9}}
    events = [f"data: {json.dumps(value)}\n\n" for value in ({"said": text}, IN_BODY, usage)]
    headers = (("content-type", "text/event-stream"), ("content-encoding", "gzip"))
    chunks = (gzip.compress("".join(events).encode()),)
    return request, HttpResponse(200, (*headers, *IN_ANSWER.items()), chunks)


def grep(folder: Path, secret: str) -> str:
    """What `grep -rF` finds."""
    completed = subprocess.run(
        ["grep", "-rFc", "--", secret, str(folder)], capture_output=True, text=True, check=False
    )
    return "".join(line for line in completed.stdout.splitlines() if not line.endswith(":0"))


def test_forty_secrets_are_planted() -> None:
    request, response = exchange()

    everything = "\n".join(
        [request.url, *(value for _, value in (*request.headers, *response.headers))]
    )
    everything += request.body.decode() + gzip.decompress(response.body).decode()
    hidden = {'p"a/s s\\wörd'}
    assert len(set(SECRETS)) == 40
    assert [secret for secret in SECRETS if secret not in everything] == [*hidden]


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_no_planted_secret_stands_in_a_recorded_file(tmp_path: Path, suffix: str) -> None:
    recorder = Recorder(KEYING.redactor)
    record(recorder, *exchange())

    save(tmp_path / f"a.{suffix}", recorder.interactions(), KEYING)

    escaped = json.dumps(ENVIRON["DB_PASSWORD"])[1:-1]
    result = [secret for secret in (*SECRETS, escaped) if grep(tmp_path, secret)]
    assert result == []


def test_words_that_only_look_like_secrets_survive() -> None:
    recorder = Recorder(KEYING.redactor)
    record(recorder, *exchange())

    (item,) = recorder.interactions()

    body = json.loads(item.request.body)
    assert (body["model"], body["max_tokens"]) == ("gpt-5", 7)
    assert b'data: {"usage": {"prompt_tokens": 5, "total_tokens": 9}}\n\n' in item.response.body


def test_question_is_found_again_though_its_secrets_are_others_now() -> None:
    request, _ = exchange()
    recorder = Recorder(KEYING.redactor)
    record(recorder, *exchange())

    (item,) = recorder.interactions()

    assert KEYING.question(item.request) == KEYING.question(request)


def test_scan_names_each_place_and_rule_and_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    shaped = SHAPED[4]
    request = HttpRequest(
        "POST", "https://x.com/a?key=abc&max_tokens=4",
        (("Authorization", "Bearer abc"), ("cookie", "[REDACTED]"),
         ("x-api-key", "[redacted:env]")),
        json.dumps({"password": "abc", "max_tokens": 4, "note": shaped}).encode(),
    )  # fmt: skip
    answered = HttpResponse(200, (("Set-Cookie", "id=1"),), (planted(90).encode(),))
    items = (Interaction(request=chat("clean"), response=HttpResponse(200, (), (b"",))),
             Interaction(request=request, response=answered))  # fmt: skip
    file.write_bytes(encoded(Cassette(file, items)) + f"# {SHAPED[0]}\n".encode())

    matches = list(scan_file(file, KEYING.redactor).leaks)

    lines = file.read_text().splitlines()
    assert [(leak.at.removeprefix("interactions[1]."), leak.rule) for leak in matches] == [
        ("request.uri", "parameter"),
        ("request.body", "github"),
        ("request.body", "password"),
        ("request.headers.authorization", "authorization"),
        ("response.headers.set-cookie", "set_cookie"),
        ("response.body", "env"),
        ("", "anthropic"),
    ]
    texts = ["key=abc", shaped, '"password', "Bearer abc", "id=1", planted(90), SHAPED[0]]
    for leak, text in zip(matches, texts, strict=True):
        assert text.strip('"') in lines[leak.line - 1], leak


def test_scan_finds_what_the_addresses_in_headers_hold(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    moved = HttpResponse(
        302, (("Location", "https://x.com/b?page=2&sig=abc"), ("x-code", "a=b")), ()
    )
    item = Interaction(request=HttpRequest("GET", "https://x.com/a"), response=moved)
    file.write_bytes(encoded(Cassette(file, (item,))))

    matches = list(scan_file(file, KEYING.redactor).leaks)

    assert [(leak.at, leak.rule) for leak in matches] == [
        ("interactions[0].response.headers.location", "parameter")
    ]


def test_secret_of_a_block_is_told_once_at_its_own_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    body = "".join(f"line {number}\n" for number in range(5)) + f"api_key={SHAPED[1]}\nend\n"
    request = HttpRequest("POST", "https://x.com/a", (), body.encode())
    item = Interaction(request=request, response=HttpResponse(200, (), (b"",)))
    file.write_bytes(encoded(Cassette(file, (item,))))

    (leak,) = scan_file(file, KEYING.redactor).leaks

    assert SHAPED[1] in file.read_text().splitlines()[leak.line - 1]
    assert leak.at == "interactions[0].request.body"


def test_scan_looks_through_files_that_are_no_cassettes(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(f'interactions: [\n  "api_key": "abc",\n  {SHAPED[0]}\n')

    matches = list(scan_file(file, KEYING.redactor).leaks)

    assert matches == [Leak(str(file), 2, "", "api_key"), Leak(str(file), 3, "", "anthropic")]


def test_scan_finds_what_is_compressed(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml.gz"
    body = base64.b64encode(gzip.compress(SHAPED[0].encode())).decode()
    content = (
        "interactions:\n- request: {method: GET, uri: /}\n  response: {status: {code: 200},"
        f" headers: {{content-encoding: gzip}}, body: {{string: !!binary {body}}}}}\nversion: 1\n"
    )
    file.write_bytes(gzip.compress(content.encode()))

    matches = list(scan_file(file, KEYING.redactor).leaks)

    assert matches == [Leak(str(file), 3, "interactions[0].response.body", "anthropic")]
