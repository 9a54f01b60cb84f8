"""All text leaves through one door: without secrets, and commanding no terminal and no CI."""

from __future__ import annotations

import ast
import io
import json
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.cli import main
from simkit.cli.commands import cli
from simkit.core import output
from simkit.core.errors import OutputFailed
from simkit.core.output import clean, command, echo, echo_json, mark, styled, visible
from simkit.core.redact import Redactor
from simkit.trace.store import read_trace
from tests.planted import SHAPED, key

ROOT: Final = Path(__file__).resolve().parents[2]
REDACTOR: Final = Redactor({})
RAW: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\U000e0000-\U000e0fff]"
)
OBEYED: Final = re.compile(r"^\s*::|##\[|##[a-z]+\[", re.MULTILINE)
OWN_COMMAND: Final = re.compile(r"::(?:error|warning|notice) [^\n]*::[^\n]*")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc é 日本 👩‍👩‍👧 می‌خواهم", "a\tb\nc é 日本 👩‍👩‍👧 می‌خواهم"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x00\r\x7f\x9b31m", r"\x00\x0d\u007f\u009b31m"),
        ("\u202egnp.exe\u2066x", r"\u202egnp.exe\u2066x"),
        ("a\u2028b\ufeff\u200b", r"a\u2028b\ufeff\u200b"),
        ("\U000e0041\ud800", r"\udb40\udc41\ud800"),
    ],
)
def test_what_commands_a_terminal_or_is_not_seen_is_shown(text: str, expected: str) -> None:
    assert visible(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::error::x", r":\u003aerror::x"),
        ("a\n \t ::stop-commands::t\nb", "a\n \t :\\u003astop-commands::t\nb"),
        ("x ##[group]y ##vso[task.x]z", r"x #\u0023[group]y #\u0023vso[task.x]z"),
        ("a::b, std::vector, ## heading, #[x]", "a::b, std::vector, ## heading, #[x]"),
    ],
)
def test_what_commands_a_ci_server_is_taken_apart(text: str, expected: str) -> None:
    assert clean(text, REDACTOR) == expected


@given(st.text() | st.lists(st.sampled_from(
    [":", "::", "#", "##[", "\n", "\r", " ", "\x1b", "\u2028", "\x85", "error", "\xa0", "\x00"]
)).map("".join))  # fmt: skip
def test_nothing_that_passes_the_door_commands(text: str) -> None:
    result = clean(text, REDACTOR)

    assert not RAW.search(result)
    assert not OBEYED.search(result)
    assert clean(result, REDACTOR) == result


@pytest.mark.slow
@given(st.recursive(st.text(), lambda below: st.dictionaries(st.text(), below)))
def test_json_that_passes_the_door_says_the_same(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    out, sys.stdout = sys.stdout, io.StringIO()
    try:
        echo_json(text)
        result = sys.stdout.getvalue()
    finally:
        sys.stdout = out

    assert not RAW.search(result)
    assert json.loads(result) == output.current_redactor().value(value)


def test_colours_are_simkits_own_and_cannot_be_forged() -> None:
    forged = styled("x", "good").replace(output.marks(), "0123456789abcdef")

    assert clean(styled("held", "good"), REDACTOR) == "\x1b[32mheld\x1b[0m"
    assert clean(forged, REDACTOR) == visible(forged)
    assert clean("\x1b[32mheld", REDACTOR) == r"\x1b[32mheld"


def test_a_secret_of_which_a_part_is_coloured_is_gone() -> None:
    secret = SHAPED["openai"]
    text = f"use {secret[:8]}{mark('bad')}{secret[8:]}{mark('end')} now"

    assert clean(text, REDACTOR) == "use [redacted:openai]\x1b[31m\x1b[0m now"


def test_an_annotation_stays_one_line_and_is_redacted() -> None:
    line = command(f"::error file=a::x\n::stop-commands::t ##[x] {SHAPED['openai']}\x1b")

    assert line == (r"::error file=a::x%0A::stop-commands::t #\u0023[x] [redacted:openai]\x1b")


def test_a_full_stream_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())

    with pytest.raises(OutputFailed, match=r"^stdout cannot be written to: No space left"):
        echo("x")


# Who writes: a new writer is found by its calls, and must go through the door or stand here.

STREAMS: Final = re.compile(
    r"(?:print|click\.(?:echo|secho|confirm|prompt|style|clear|pause)|os\.write|os\.fdopen"
    r"|(?:sys\.)?(?:__)?std(?:out|err)(?:__)?(?:\.buffer)?\.write(?:lines)?"
    r"|.*\.(?:write_text|write_bytes|write_line|add_report_section)"
    r"|pytest\.(?:fail|skip|xfail|exit)(?:\.Exception)?|open|.*\.open|os\.open"
    r"|warnings\.warn|logging\..*)"
)
CLEANED: Final = frozenset(("clean", "_clean", "command", "_again", "styled", "mark"))
WRITERS: Final = {
    ("cli/__init__.py", "open"): "in place of a stream that is closed",
    ("cli/__init__.py", "os.open"): "in place of a stream that is closed",
    ("session/workers/worker.py", "os.fdopen"): "calls and answers between simkit's own processes",
    ("session/workers/worker.py", "os.open"): "the null device, to be read",
    ("capture/http/stdio_servers.py", "os.write"): "answers of servers to the code under test",
    ("capture/http/refusals.py", "os.open"): "a file between simkit's own processes",
    ("capture/http/refusals.py", "os.write"): "a file between simkit's own processes",
    ("explore/conversations.py", "open"): "the null device: what explored code prints is dropped",
    ("cli/init/files.py", "draft.write_bytes"): "cleaned by callers, or simkit's own wheel",
    ("explore/journal.py", "ignore.write_text"): "fixed words",
    ("explore/cluster.py", "logging.getLogger"): "no text",
    ("explore/cluster.py", "logging.getLogger('distributed').setLevel"): "no text",
    ("adapters/google_adk/runner.py", "logging.getLogger"): "no text",
    ("adapters/google_adk/runner.py", "logging.NullHandler"): "no text",
    ("testing/conformance.py", "pytest.skip"): "fixed words",
    ("report/diffs.py", "open"): "the summary; its text is cleaned",
    ("core/files.py", "temporary.open"): "traces, pages, cassettes; redacted or checked",
    ("core/files.py", "os.open"): "a folder, only to be synced",
    ("core/files.py", "file.write_bytes"): "the same, to a device or a pipe",
    ("testing/conformance.py", "file.write_text"): "the suite's own scenarios, for a test",
    ("testing/conformance.py", "(tmp_path / 'traces' / f'{name}.jsonl').write_bytes"): "the same",
}
"""Module and call, and why it need not go through the door."""


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if STREAMS.fullmatch(name) and not is_reading(name, node):
                yield name, node


def is_reading(name: str, node: ast.Call) -> bool:
    """Whether a file is opened to be read."""
    if not name.endswith("open"):
        return False
    texts = [*node.args, *(word.value for word in node.keywords)]
    modes = [n.value for n in texts if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return name != "os.open" and not any(set(m) & set("wax+") for m in modes if len(m) < 4)


def is_cleaned(node: ast.Call) -> bool:
    names = [ast.unparse(n.func) for part in node.args for n in ast.walk(part)
             if isinstance(n, ast.Call)]  # fmt: skip
    texts = [ast.unparse(part) for part in node.args]
    return bool(CLEANED & set(names)) or texts[-1:] in (["text"], ["line"])


@pytest.mark.slow
def test_every_writer_goes_through_the_door_or_says_why_not() -> None:
    pairs = {
        (str(file.relative_to(ROOT / "simkit")), name)
        for file in sorted((ROOT / "simkit").rglob("*.py"))
        for name, node in calls(file)
        if not is_cleaned(node)
    }

    assert pairs == set(WRITERS)


def test_no_command_writes_past_the_door() -> None:
    for file in sorted((ROOT / "simkit" / "cli").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        assert not re.search(
            r"\bclick\.(?:s?echo|style)\(|(?<!\w)print\(|std(?:out|err)\.write", text
        )


# A scenario that is hostile wherever it can be, and every command that could show it.

SECRET: Final = key("sk-", "proj-", "hUsH0815hUsH0815hUsH")
HOSTILE: Final = (
    "\x1b[31mR\x07\x9b2J\x7f\u202eevil\u2066\U000e0041\r\n::error::pwned\n  ::stop-commands::x\n"
    f"##[error]pwned ##vso[task.x]y {SECRET}"
)
LINE: Final = HOSTILE.replace("\r", "").replace("\n", " ")


def quoted(text: str) -> str:
    """A text as YAML takes it, every character that is not ASCII escaped."""
    return '"' + "".join(
        c if " " <= c < "\x7f" and c not in '"\\' else f"\\U{ord(c):08x}" for c in text
    ) + '"'  # fmt: skip


def scenario(*, holds: bool) -> str:
    """A document with hostile text in every place that takes text."""
    text = quoted(HOSTILE)
    line = quoted(LINE)
    expected = text if holds else quoted("something else " + LINE)
    return f"""\
version: 1
pipeline: desk
channels:
  {line}: {{reducer: merge, scope: turn}}
  agent_results: {{reducer: merge, scope: turn}}
agents:
  clerk: {{instructions: {text}, tools: [look], handoffs: []}}
flow: {{handoffs: {{start: clerk}}}}
---
version: 1
scenario: {line}
pipeline: desk
turns:
  - user: {text}
    replies:
      clerk:
        - calls: [look: {{{line}: {text}}}]
        - {text}
    tool_results: {{look: {{{line}: {text}}}}}
    expect:
      reply: {expected}
      tool_calls: [{{tool: look, args: {{{line}: {expected}}}}}]
---
version: 1
scenario: fails
pipeline: desk
turns:
  - user: {text}
    replies: {{clerk: {{error: {{type: {line}, message: {text}}}}}}}
    expect: {{error: {{message: {expected}}}}}
---
version: 1
scenario: skipped
skip: {line}
pipeline: desk
turns: [{{user: hi}}]
"""


INVOCATIONS: Final[dict[str, list[list[str]]]] = {
    "bdd": [["bdd", "steps", LINE]],
    "cassettes": [["cassettes"], ["cassettes", "scan", "cassettes"], ["cassettes", LINE]],
    "coverage": [["coverage", *form] for form in (
        [], ["--format", "json"], ["--format", "lcov"], ["--format", "html"])],
    "diff": [["diff", "one.jsonl", "two.jsonl", *form] for form in (
        [], ["--format", "json"], ["--format", "markdown"], ["--format", "github"])],
    "doctor": [["doctor"], ["doctor", "scenarios/a.scenario.yaml"]],
    "expect": [["expect", "scenarios/a.scenario.yaml"]],
    "export": [["export", "one.jsonl"], ["export", LINE]],
    "import": [["import", "one.jsonl"], ["import", LINE]],
    "graph": [["graph", "scenarios/a.scenario.yaml", "--format", form]
              for form in ("mermaid", "dot")] + [["graph", LINE]],
    "init": [["init", LINE]],
    "judge": [["judge"], ["judge", "--format", "json"], ["judge", "--format", "github"],
              ["judge", LINE]],
    "live": [["live", "scenarios/a.scenario.yaml"], ["live", LINE]],
    "mcp": [["mcp", LINE]],
    "mutate": [["mutate"], ["mutate", "--format", "json"], ["mutate", LINE]],
    "record": [["record", "scenarios/a.scenario.yaml"], ["record", LINE]],
    "replay": [
        ["replay"], ["replay", "scenarios/a.scenario.yaml"], ["replay", "-j", "2"],
        ["replay", "--format", "json"], ["replay", "--format", "github"], ["replay", "-k", "x"],
        *(["replay", "scenarios/a.scenario.yaml", "--show", text]
          for text in ("context", "state", "events")),
        ["replay", f"scenarios/a.scenario.yaml::{LINE}"], ["replay", LINE], ["replay", "--failed"],
    ],
    "explore": [["explore", "scenarios/a.scenario.yaml", "--runs", "3"], ["explore", LINE]],
    "explain": [["explain", "HND-12"], ["explain", LINE]],
    "schema": [["schema", "scenario"], ["schema", LINE]],
    "serve": [["serve", "scenarios/a.scenario.yaml", "--", "true"], ["serve", LINE]],
    "validate": [["validate"], ["validate", "--format", "json"], ["validate", "--format", "github"],
                 ["validate", LINE]],
    "view": [["view", "--no-open"], ["view", LINE]],
}  # fmt: skip


@pytest.fixture
def hostile(cwd: Path) -> Path:
    return write_hostile(cwd)


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the scenarios were run, with traces of somebody else's beside them."""
    folder = write_hostile(tmp_path_factory.mktemp("completed"))
    with chdir(folder), pytest.raises(SystemExit):
        main(["replay", "-q"])
    (remaining, *_) = sorted(folder.glob(".simkit/**/*.jsonl"))
    # Those have all that ours have no more.
    raw = remaining.read_text().replace("[redacted:openai]", SECRET)
    (folder / "one.jsonl").write_text(raw)
    (folder / "two.jsonl").write_text(raw.replace("pwned", "PWNED", 1))
    assert read_trace(folder / "one.jsonl").events
    return folder


def write_hostile(tmp_path: Path) -> Path:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "cassettes").mkdir()
    (tmp_path / "cassettes/a.yaml").write_text(f"interactions: [{quoted(HOSTILE)}]\n")
    (tmp_path / "scenarios/a.scenario.yaml").write_text(scenario(holds=True), encoding="utf-8")
    (tmp_path / "scenarios/b.scenario.yaml").write_text(scenario(holds=False), encoding="utf-8")
    broken = scenario(holds=True).replace("turns:", f"{quoted(LINE)}: 1\nturns:")
    (tmp_path / "scenarios/c.scenario.yaml").write_text(broken, encoding="utf-8")
    return tmp_path


def run(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        main(arguments)
    out, err = capfd.readouterr()
    return out + err


def check(text: str, form: str = "text") -> None:
    """Nothing raw, nothing obeyed, no secret; annotations are simkit's own."""
    assert not RAW.search(text), RAW.search(text)
    assert SECRET not in text
    assert "itself failed" not in text, text
    lines = [line for line in text.split("\n") if OBEYED.search(line)]
    if form == "github":
        lines = [line for line in lines if not OWN_COMMAND.fullmatch(line) or "##[" in line]
    assert lines == []


def test_every_command_has_an_invocation_here() -> None:
    assert sorted(INVOCATIONS) == sorted(cli.commands)


@pytest.mark.parametrize("name", INVOCATIONS)
def test_hostile_text_and_secrets_come_out_of_no_command(
    name: str,
    completed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(shutil.copytree(completed, tmp_path, dirs_exist_ok=True))
    texts = []

    for arguments in INVOCATIONS[name]:
        text = run(arguments, capfd)

        check(text, "github" if "github" in arguments else "text")
        texts.append(text)
    if name == "replay":
        assert r"\x1b[31mR\x07" in texts[0]


@pytest.mark.slow
def test_what_is_kept_of_a_hostile_run_holds_no_secret(
    hostile: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = hostile / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))

    run(["replay", "--format", "github"], capfd)

    for file in [summary, *(hostile / ".simkit").rglob("*")]:
        assert SECRET not in str(file)
        if file.is_file():
            assert SECRET not in file.read_text(), file
    check(summary.read_text())


@pytest.mark.slow
def test_a_secret_that_only_the_environment_knows_is_cut_nowhere(
    hostile: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table cuts long texts, and half of such a secret is known by nothing."""
    secret = "open-" + "sesame-" * 12
    monkeypatch.setenv("CAVE_PASSWORD", secret)
    for padding in range(0, 60, 7):
        text = scenario(holds=False).replace(SECRET, "").replace("evil", "x" * padding + secret)
        (hostile / "scenarios/a.scenario.yaml").write_text(text, encoding="utf-8")

        completed = run(["replay", "scenarios/a.scenario.yaml", "--show", "context"], capfd)

        assert "open-sesame" not in completed


@pytest.mark.slow
def test_pytest_and_its_reports_show_nothing_hostile(
    pytester: pytest.Pytester, hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    ran = pytester.runpytest_inprocess(
        "-p", "no:cacheprovider", "-rA", "-v", f"--junitxml={hostile}/junit.xml",
        "--simkit-update=fix", str(hostile / "scenarios"), f"--rootdir={hostile}",
    )  # fmt: skip

    text = "\n".join((*ran.outlines, *ran.errlines))
    assert "b.scenario.yaml" in text
    check(text)
    check((hostile / "junit.xml").read_text())
