"""Each kind of secret, in each encoding, on each way out: none is left, and words stay."""

from __future__ import annotations

import gzip
import json
import quopri
import zlib
from base64 import b64encode, encodebytes, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import zstandard

from simkit.capture.cassettes.redacting import redacted_answer, redacted_body
from simkit.core.output import clean
from simkit.core.redact import Redactor
from simkit.core.text import cut_both, short, short_both, short_end
from simkit.language.matching.misses import differing, line, near
from simkit.providers.http import HttpRequest, HttpResponse
from tests.conftest import IS_NIGHTLY, sample_by_day
from tests.planted import KEPT_AROUND, ORDINARY, SHAPED

REDACTOR: Final = Redactor({"MY_PASSWORD": "Zq83kPx0vBn4"})
SECRETS: Final = {**SHAPED, "env": "Zq83kPx0vBn4"}
ENCODED: Final[dict[str, Callable[[str], bytes]]] = {
    "plain": str.encode,
    "base64": lambda text: b64encode(text.encode()),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()),
    "base64 in lines": lambda text: encodebytes(f"{text} and {'more ' * 30}".encode()),
    "hexadecimal": lambda text: text.encode().hex().encode(),
    "entities": lambda text: "".join(f"&#{ord(c)};" for c in text).encode(),
    "some entities": lambda text: text.replace("-", "&#45;").replace("_", "&#x5f;").encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 without a mark": lambda text: text.encode("utf-16-le"),
    "NULs between letters": lambda text: "\0".join(f"use {text} now").encode(),
    "spaces without a width": lambda text: "\u200b".join(text).encode(),
    "other such spaces": lambda text: "\ufeff".join(text).encode(),
    "base64 after a path": lambda text: b"/a/" + b64encode(f"use {text}".encode()) + b"/b",
    "base64 in a link": lambda text: b"data:text/plain;base64," + b64encode(f"- {text}\n".encode()),
    "base64 twice": lambda text: b64encode(b64encode(text.encode())),
    "base64 of UTF-16": lambda text: b64encode(text.encode("utf-16-le")),
    "JSON's escapes": lambda text: "".join(f"\\u{ord(c):04x}" for c in text).encode(),
    "source's escapes": lambda text: "".join(f"\\x{ord(c):02x}" for c in text).encode(),
    "percent signs": lambda text: "".join(f"%{ord(c):02X}" for c in text).encode(),
    "quoted-printable": lambda text: quopri.encodestring(f"use {text} now".encode()),
}
PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": lambda plain: zlib.compress(plain, wbits=-zlib.MAX_WBITS),
    "zstd": zstandard.ZstdCompressor().compress,
    "gzip, zstd": lambda plain: zstandard.ZstdCompressor().compress(gzip.compress(plain)),
}
"""How a client may pack what it sends."""
SSE: Final = (("content-type", "text/event-stream"),)
OTHERS: Final = {("UTF-16", "text"), ("UTF-16", "stream"), ("quoted", "stream")}
CUTS: Final = 12 if IS_NIGHTLY else 4


def outputs(secret: bytes) -> dict[str, bytes]:
    """The ways out, by their names: recordings, texts, stored lines."""
    answers = {
        "text": HttpResponse(200, (), (b"use ", secret, b" now")),
        "stream": HttpResponse(200, SSE, (b"data: ", secret, b"\n\n")),
    }
    stored = {name: redacted_answer(answer, REDACTOR) for name, answer in answers.items()}
    stored |= {
        f"sent as {encoding or 'itself'}": redacted_body(
            HttpRequest("POST", "", (("Content-Encoding", encoding),), pack(secret)), REDACTOR
        )
        for encoding, pack in PACKERS.items()
    }
    stored["sent as gzip, unsaid"] = redacted_body(
        HttpRequest("POST", "", (), gzip.compress(secret)), REDACTOR
    )
    text = secret.decode("utf-8", "replace")
    if "\ufffd" not in text:  # The mark of UTF-16 is in no text.
        line = REDACTOR.line(json.dumps({"said": [text]}).encode())
        stored |= {
            "said": REDACTOR.text(text).encode(),
            "line": json.loads(line)["said"][0].encode(),
        }
    return stored


def essence(kind: str, secret: str) -> str:
    """The part of a secret that nobody may read."""
    before, after = KEPT_AROUND.get(kind, ("", ""))
    return secret.removeprefix(before).removesuffix(after)


@pytest.mark.slow
@pytest.mark.parametrize("way", ENCODED)
def test_no_output_holds_a_secret_in_an_encoding(way: str) -> None:
    for kind, secret in SECRETS.items():
        encoded = ENCODED[way](secret)
        for name, body in outputs(encoded).items():
            if (way[:6], name) in OTHERS:
                continue  # A body is in one encoding, and an event has no bare line break.
            assert encoded.strip() not in body, (kind, name)
            assert b"redacted" in body.replace(b"\0", b""), (kind, name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sample_by_day(SECRETS, 24))
def test_no_report_shows_a_part_of_a_secret_wherever_it_cuts(kind: str) -> None:
    secret = SECRETS[kind]
    core = essence(kind, secret)
    parts = {core[at : at + 16] for at in range(4, max(len(core) - 15, 5))}
    lead = "word " * 30
    text = f"{lead}'{secret}' and {'more ' * 60}"
    sizes = range(len(lead) + 2, len(lead) + len(secret) + 6, max(1, len(secret) // CUTS))
    excerpts = [cut(text, most) for most in sizes for cut in (short, short_end)]
    for most in (40, 80, 120, 160):
        excerpts += [*short_both(text, f"{text[:-30]}x", most), *cut_both(text, "word", most)]
    excerpts += [
        *differing(text, text.replace(" and more", " or more")),
        line(text),
        line({"a": [text]}),
    ]
    excerpts += [near(text, ["and more"]), near(text, [secret[:8]])]

    for excerpt in excerpts:
        output = clean(excerpt, REDACTOR)
        assert not any(part in output for part in parts), output


@pytest.mark.parametrize("text", ORDINARY)
def test_words_and_what_they_are_encoded_to_stay(text: str) -> None:
    for way, encode in ENCODED.items():
        body = encode(text)
        for name, content in outputs(body).items():
            assert b"redacted" not in content.replace(b"\0", b""), (way, name)


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("OPENAI_API_KEY=qwertyuiop12", "qwertyuiop12"),
        ("export DB_PASSWORD='geheim77'", "geheim77"),
        ("Cookie: sid=abcdefgh123; theme=dark", "abcdefgh123"),
        ("Set-Cookie: sid=abcdef12345; Path=/; HttpOnly", "abcdef12345"),
        ("the password: hunter2x", "hunter2x"),
        ("Server=db;Uid=ada;Pwd=geheim;", "geheim"),
        ("GET https://x/y?sv=1&sig=abcDEF0123456789%3D", "abcDEF0123456789"),
        ("curl -s -u ada:s3cret https://x", "s3cret"),
        ("curl --user 'ada:pw1234' https://x", "pw1234"),
        ("token: abcdef0123456789ab", "abcdef0123456789ab"),
        ('{"OPENAI_API_KEY": "hunter2hunter"}', "hunter2hunter"),
        ("{'DB_PASSWORD': 'geheim77'}", "geheim77"),
        ("OPENAI_API_KEY: qwertyuiop12", "qwertyuiop12"),
        ('form-data; name="password"\r\n\r\nhunter2x\r\n--b', "hunter2x"),
        *(
            (f"key{SHAPED[kind]}", SHAPED[kind])
            for kind in ("openai", "anthropic", "aws", "github")
        ),
    ],
)
def test_a_secret_in_running_text_is_replaced_in_texts_and_in_json(text: str, secret: str) -> None:
    assert secret not in REDACTOR.text(text)
    assert secret.encode() not in REDACTOR.line(json.dumps({"said": [text]}).encode())
    assert REDACTOR.text(REDACTOR.text(text)) == REDACTOR.text(text)


WORDS: Final = """\
password: required
PWD=/srv/app
Cookie: chocolate chip
the token: a word
MAX_TOKEN=5
the secret: sauce
https://x/y?code=200&key=name
curl it, -u or not
Path=/; HttpOnly; Secure; SameSite=Lax
api key: see your account
token: end_of_text
{"SORT_KEY": "created_at_desc_2"}
{"MAX_TOKEN": "required"}
task-550e8400-e29b-41d4-a716-446655440000
desk-0f1e2d3c4b5a69788796a5b4c3d2e1f0
Minsk-2026-conference-hall
laughs_at_everybody_in_the_room_2026
"""


@pytest.mark.parametrize("text", WORDS.splitlines())
def test_words_around_secrets_stay(text: str) -> None:
    assert REDACTOR.text(text) == text


def test_texts_are_cut_at_one_door() -> None:
    """A cut before redaction shows the beginning of a key."""
    root = Path(__file__).resolve().parents[3]
    offenders = [
        f"{file.relative_to(root)}: {code.strip()}"
        for file in sorted((root / "simkit").rglob("*.py"))
        if file.name not in ("text.py", "misses.py")
        for code in file.read_text(encoding="utf-8").splitlines()
        if ('] + "…"' in code or "]}…" in code) and "[:" in code.replace("[: ", "[:")
    ]

    assert offenders == [
        "simkit/language/yaml/parsing.py: return text if len(text) <= _SHOWN_MAX else "
        'f"{text[:_SHOWN_MAX]}…"'
    ]


@pytest.mark.parametrize(
    ("encoding", "body", "stored"),
    [
        ("br", b"\x0b\x02\x80hello\x03\xff", b"[redacted:br_ee514012]"),
        ("br", b"\x0b\x02\x80hullo\x03\xff", b"[redacted:br_ed874289]"),
        ("gzip", b"\x1f\x8b\x08cut off", b"[redacted:gzip_9be6905e]"),
        ("gzip", b'{"a": 1}', b'{"a": 1}'),
        ("rot13", b"sk-" + b"a1B2" * 12, b"[redacted:openai]"),
    ],
)
def test_what_nothing_can_unpack_is_not_stored(encoding: str, body: bytes, stored: bytes) -> None:
    request = HttpRequest("POST", "", (("content-encoding", encoding),), body)

    assert redacted_body(request, REDACTOR) == stored
