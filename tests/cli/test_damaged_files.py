"""Whatever stands where a file is expected: one clear error, exit 2, and nothing is overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from simkit.language import expressions
from tests.cli.projects import ECHO, Call, Done, write

LONG: Final = "x" * 300


def folder(path: Path) -> None:
    path.mkdir()


def looped(path: Path) -> None:
    path.symlink_to(path.name)


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def write_content(content: bytes) -> Callable[[Path], None]:
    return lambda path: (path.write_bytes(content), None)[1]


def changed(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content.replace(old, new, 1)


PLACED: Final[dict[str, Callable[[Path], None]]] = {
    "a folder": folder,
    "a link to itself": looped,
    "a link to nothing": dangling,
    "empty": write_content(b""),
    "zeros": write_content(b"\0" * 100),
    "no UTF-8": write_content(b"\xff\xfe\x00x"),
    "a byte order mark alone": write_content(b"\xef\xbb\xbf"),
    "UTF-16": write_content("version: 1\n".encode("utf-16")),
    "a long line": write_content(b"[" * 100_000),
    "a huge number": write_content(b'{"simkit_trace":' + b"9" * 5000 + b"}"),
    "a number": write_content(b"1"),
    "a list": write_content(b"[]\n[]\n"),
    "CRLF": write_content(b"a: 1\r\n\tb\r\n"),
}
CHANGES: Final[dict[str, Callable[[bytes], bytes]]] = {
    "a byte that is no UTF-8": changed(b"hello", b"hel\xfflo"),
    "a half surrogate": changed(b"hello", b"hel\\ud800lo"),
    "NaN": changed(b'"at":0', b'"at":NaN'),
    "a huge number": changed(b'"at":0', b'"at":1' + b"0" * 400),
    "a huge exponent": changed(b'"at":0', b'"at":1e999999'),
    "another type": changed(b'"at":0', b'"at":[]'),
    "cut": lambda content: content[: len(content) // 2],
    "an event twice": lambda content: content + content.splitlines(keepends=True)[1],
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "a line of zeros": lambda content: content + b"\0" * 50 + b"\n",
}
READERS: Final[dict[str, list[str]]] = {
    "x.scenario.yaml": ["replay", "validate", "expect", "record", "serve", "doctor"],
    "x.jsonl": ["judge", "diff"],
    "x.yaml": ["cassettes scan", "cassettes"],
}


def called(simkit: Call, command: str, file: str) -> Done:
    words = command.split()
    return simkit(*words, file, *(["good.jsonl"] if command == "diff" else []))


def check(done: Done, codes: tuple[int, ...] = (2,)) -> None:
    output = done.out + done.err
    assert "itself failed" not in output, output
    assert "Traceback" not in output, output
    assert "None:" not in output, output
    assert done.code in codes, output
    assert output.strip()


@pytest.fixture
def trace_bytes(simkit: Call) -> bytes:
    assert simkit("replay", "scenarios/good.scenario.yaml::it holds", "-q").code == 0
    (trace,) = Path(".simkit/traces").glob("*.jsonl")
    Path("good.jsonl").write_bytes(trace.read_bytes())
    return trace.read_bytes()


@pytest.mark.parametrize("problem", PLACED)
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_such_file_is_one_clear_error(
    simkit: Call, trace_bytes: bytes, name: str, problem: str
) -> None:
    path = Path(name)
    PLACED[problem](path)
    before = path.read_bytes() if path.is_file() else b""

    for command in READERS[name]:
        codes: tuple[int, ...] = (2,)
        if problem == "a folder" and command in (
            "validate", "replay", "expect", "cassettes scan", "cassettes",
        ):  # fmt: skip
            codes = (0, 2)
        check(called(simkit, command, name), codes)

    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize("problem", CHANGES)
def test_a_damaged_trace_is_never_equal_and_one_clear_error(
    simkit: Call, trace_bytes: bytes, problem: str
) -> None:
    changed = CHANGES[problem](trace_bytes)
    assert changed != trace_bytes
    Path("x.jsonl").write_bytes(changed)

    for done in (simkit("judge", "x.jsonl"), simkit("diff", "x.jsonl", "good.jsonl")):
        check(done, (0, 2) if problem in ("CRLF", "a huge number") else (2,))


@pytest.mark.parametrize(
    "arguments",
    [[command, LONG] for command in (
        "cassettes", "doctor", "expect", "init", "judge", "record", "replay", "serve", "validate",
    )] + [
        ["cassettes", "scan", LONG], ["diff", LONG, "good.jsonl"], ["init", LONG],
        ["replay", f"scenarios/good.scenario.yaml::{LONG}"], ["replay", "--base", LONG],
        ["schema", "-o", LONG], ["judge", "good.jsonl", "--scenario", LONG],
    ],
    ids=lambda arguments: " ".join(arguments).replace(LONG, "…"),
)  # fmt: skip
def test_a_name_that_is_too_long_is_one_clear_error(
    simkit: Call, trace_bytes: bytes, arguments: list[str]
) -> None:
    check(simkit(*arguments))


@pytest.mark.parametrize(
    "place",
    [".simkit", ".simkit/last.json", ".simkit/traces", ".simkit/runs", ".simkit/.gitignore"],
)
@pytest.mark.parametrize("problem", ["a folder", "a link to itself", "empty", "zeros", "no UTF-8"])
def test_what_stands_in_the_place_of_kept_traces_stops_no_run(
    simkit: Call, place: str, problem: str
) -> None:
    path = Path(place)
    path.parent.mkdir(exist_ok=True)
    PLACED[problem](path)

    done = simkit("replay", "scenarios/good.scenario.yaml::it holds")

    check(done, (0,))
    assert "1 scenario: 1 passed" in done.out
    check(simkit("judge"), (0, 1, 2))
    check(simkit("replay", "--failed"), (0, 2))


@pytest.mark.parametrize("start", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30"])
def test_the_ends_of_time_are_no_bug(simkit: Call, start: str) -> None:
    file = Path("scenarios/good.scenario.yaml")
    slow = "replies: {a: {text: hello, latency_ms: 100000}}"
    text = file.read_text().replace("replies: {a: hello}", slow, 1)
    file.write_text(text.replace("scenario: it holds", f"scenario: it holds\nstart: {start!r}"))

    check(simkit("replay", "scenarios/good.scenario.yaml", "--show", "events"), (0, 1, 2))


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("command", ["replay", "validate", "cassettes", "judge"])
def test_a_full_or_closed_stdout_is_one_clear_error(
    simkit: Call, trace_bytes: bytes, command: str
) -> None:
    import subprocess
    import sys

    root = Path(__file__).resolve().parents[2]
    Path("cassettes").mkdir(exist_ok=True)
    Path("cassettes/a.yaml").write_text("interactions: []\nversion: 1\n")
    for target, says in ((">/dev/full", "No space left on device"), (">&-", "stdout is closed")):
        done = subprocess.run(
            f"{sys.executable} -m simkit {command} {target}", shell=True, text=True,
            capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(root)},
        )  # fmt: skip

        assert done.returncode == 2, done.stderr
        assert says in done.stderr
        assert "itself failed" not in done.stderr
        assert "Exception ignored" not in done.stderr


CLAIMED = """\
---
version: 1
scenario: it is slow
pipeline: echo
turns: [{user: hi, replies: {a: %s}, expect: {reply: {$regex: "^(a|aa)+$"}}}]
""" % ("a" * 60 + "!")


def test_an_endless_expression_is_one_clear_error(
    simkit: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "CPU_SECONDS_MAX", 0.05)
    write("scenarios/slow.scenario.yaml", ECHO + CLAIMED)

    done = simkit("replay")

    assert done.code == 2
    assert "the regular expression `^(a|aa)+$` found no answer within 0.05 s of work" in done.out
    assert "slow.scenario.yaml:" in done.out
    assert "itself failed" not in done.out
    assert "4 scenarios: 3 passed, 1 error" in done.out
