"""The layout is vcrpy's, whichever version wrote a file and whichever is installed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import vcr
from vcr.request import Request
from vcr.serialize import deserialize, serialize
from vcr.serializers import jsonserializer, yamlserializer

from simkit.capture.cassettes import Cassette, Interaction, Keying, encoded, loads, save
from simkit.core.errors import CassetteInvalid
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse
from tests.processes import run_python

SERIALIZERS = {".yaml": yamlserializer, ".json": jsonserializer}
FILES = sorted((Path(__file__).parent / "vcrpy").iterdir())
"""Each was written by the version of vcrpy that is its name, by `python -m` this module."""
URL = "https://api.openai.com/v1/chat/completions"
OK = {"code": 200, "message": "OK"}


def exchanges(is_json: bool) -> list[tuple[Request, dict[str, Any]]]:
    """What clients hand to vcrpy: texts, bytes, files, iterators, data."""
    bodies: list[Any] = [b'{"model": "m", "say": "caf\xc3\xa9: no, 12:30"}', "a=1", None]
    answers = [b'{"text": "caf\xc3\xa9"}', b'data: {"n": 1}\n\ndata: [DONE]\n\n', b""]
    if not is_json:
        bodies += [b"\x00\xff", io.BytesIO(b"a file"), iter([b"in ", b"parts"]), {"of": ["data"]}]
        answers += [b"\x00\xff", b"to a file", b"to parts", b"to data"]
    headers = {"Content-Type": ["text/plain"], "X-Many": ["1", "2"]}
    return [
        (
            Request("POST", f"{URL}?n={number}", body, {"Content-Type": "application/json"}),
            {"status": OK, "headers": dict(headers), "body": {"string": answer}},
        )
        for number, (body, answer) in enumerate(zip(bodies, answers, strict=True))
    ]


def vcrpy_text(suffix: str) -> str:
    """What the installed vcrpy writes of them."""
    requests, responses = zip(*exchanges(suffix == ".json"), strict=True)
    tree = {"requests": list(requests), "responses": list(responses)}
    return str(serialize(tree, SERIALIZERS[suffix]))


def as_bytes(body: Any) -> Any:
    if hasattr(body, "read"):
        return body.read()
    return body if body is None or isinstance(body, bytes | dict) else b"".join(body)


def read_with_vcrpy(content: str, suffix: str) -> list[Any]:
    """What the installed vcrpy reads in a file."""
    requests, responses = deserialize(content, SERIALIZERS[suffix])
    return [
        (request.method, request.uri, dict(request.headers), as_bytes(request.body), answered)
        for request, answered in zip(requests, responses, strict=True)
    ]


def exchanged(content: str, suffix: str) -> list[tuple[HttpRequest, HttpResponse]]:
    """What simkit reads in it."""
    items = loads(content.encode(), f"a{suffix}").interactions
    return [(item.request, item.response) for item in items]


def test_there_are_files_of_the_oldest_and_the_newest_version() -> None:
    names = {file.name for file in FILES}

    assert {"7.0.0.yaml", "7.0.0.json", "9.4.2.yaml", "9.4.2.json"} <= names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_installed_vcrpy_reads_what_another_version_wrote(file: Path) -> None:
    content = file.read_text(encoding="utf-8")

    values = read_with_vcrpy(content, file.suffix)

    assert len(values) in (3, 7)
    assert values == read_with_vcrpy(vcrpy_text(file.suffix), file.suffix)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_simkit_reads_the_same_in_files_of_all_versions(file: Path) -> None:
    content = file.read_text(encoding="utf-8")

    pairs = exchanged(content, file.suffix)

    assert pairs == exchanged(vcrpy_text(file.suffix), file.suffix)
    assert [request.body for request, _ in pairs][4:] in (
        [], [b"a file", b"in parts", b'{"of":["data"]}'],
    )  # fmt: skip
    assert [answered.body for _, answered in pairs] == [
        answered["body"]["string"] for _, answered in exchanges(file.suffix == ".json")
    ]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_simkit_writes_of_a_file_vcrpy_reads_as_that_file(file: Path) -> None:
    content = file.read_text(encoding="utf-8")
    cassette = loads(content.encode(), file.name)

    again = encoded(cassette).decode()

    assert loads(again.encode(), file.name) == cassette
    assert [
        (method, uri, headers, body or None, answered)
        for method, uri, headers, body, answered in read_with_vcrpy(again, file.suffix)
    ] == [
        (method, uri, headers, b'{"of":["data"]}' if isinstance(body, dict) else body, answered)
        for method, uri, headers, body, answered in read_with_vcrpy(content, file.suffix)
    ]


REQUEST = HttpRequest("POST", URL, (("content-type", "application/json"),), b'{"model": "m"}')
ANSWERED = HttpResponse(200, (), (b"fine",))
ITEM = Interaction(request=REQUEST, response=ANSWERED, agent="a", turn=1)


@pytest.mark.parametrize("suffix", SERIALIZERS)
def test_the_layout_is_what_the_installed_vcrpy_makes_of_it(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Request._to_dict
    monkeypatch.setattr(Request, "_to_dict", lambda self: {**plain(self), "sent_by": "vcrpy 10"})
    monkeypatch.setattr(vcr.serialize, "CASSETTE_FORMAT_VERSION", 2)

    content = encoded(Cassette(Path(f"a{suffix}"), (ITEM,)))

    tree = SERIALIZERS[suffix].deserialize(content.decode())
    assert tree["version"] == 2
    assert tree["interactions"][0]["request"]["sent_by"] == "vcrpy 10"


@pytest.mark.parametrize("suffix", SERIALIZERS)
def test_a_file_that_vcrpy_reads_otherwise_is_not_written(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = vcr.serialize.compat.convert_to_bytes

    def other(response: dict[str, Any]) -> Any:
        return {**plain(response), "body": {"string": b"something else"}}

    monkeypatch.setattr(vcr.serialize.compat, "convert_to_bytes", other)

    with pytest.raises(CassetteInvalid, match="it would not be read as it was recorded"):
        save(tmp_path / f"a{suffix}", [ITEM], Keying(Redactor({})))

    assert list(tmp_path.glob("a*")) == []


def test_every_value_of_a_header_that_is_sent_twice_is_kept() -> None:
    headers = (("anthropic-beta", "one"), ("anthropic-beta", "two"))
    item = Interaction(request=HttpRequest("POST", URL, headers, b"{}"), response=ANSWERED)
    cassette = Cassette(Path("a.yaml"), (item,))

    content = encoded(cassette)

    assert loads(content, "a.yaml") == cassette
    assert read_with_vcrpy(content.decode(), ".yaml")[0][2] == {"anthropic-beta": "one"}


def test_a_request_that_vcrpy_cannot_hold_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object) -> Request:
        raise ValueError("Invalid IPv6 URL")  # So do some of its versions.

    monkeypatch.setattr(vcr.request, "Request", refused)

    with pytest.raises(CassetteInvalid, match="vcrpy cannot hold a request: Invalid IPv6 URL"):
        encoded(Cassette(Path("a.yaml"), (ITEM,)))


def test_reading_a_file_of_today_imports_neither_vcrpy_nor_the_clients_that_it_imports() -> None:
    code = (
        "import sys\n"
        "from simkit.capture.cassettes import load\n"
        "for file in sys.argv[1:]:\n"
        "    assert load(file).interactions\n"
        "print({'vcr', 'requests', 'httpx', 'aiohttp'} & set(sys.modules))\n"
    )

    done = run_python("-c", code, *map(str, FILES))

    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("tag", "reply"),
    [
        ("!!python/object/new:os.system {state: [true]}", "the tag"),
        ("!!python/object/apply:os.system [true]", "the tag"),
        ("!!python/object/new:_io.BytesIO {state: {a: 1}}", "no body that vcrpy writes"),
        ("!!python/object/apply:builtins.iter {args: [[[x]]]}", "no body that vcrpy writes"),
    ],
)
def test_no_other_object_is_read_in_a_body(tag: str, reply: str) -> None:
    content = f"""
        interactions:
        - request: {{method: POST, uri: /a, body: {tag}}}
          response: {{status: {{code: 200}}}}
        version: 1
        """

    with pytest.raises(CassetteInvalid, match=reply):
        loads(content.encode(), "a.yaml")


if __name__ == "__main__":
    for suffix in SERIALIZERS:
        file = Path(__file__).parent / "vcrpy" / f"{vcr.__version__}{suffix}"
        file.write_text(vcrpy_text(suffix), encoding="utf-8")
