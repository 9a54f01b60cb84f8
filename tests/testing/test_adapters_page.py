"""docs/how-to/adapters.md: its example keeps the rules, and needs each of its hooks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simkit.adapters import api
from simkit.adapters.framework_driver import FrameworkDriver, Restartable
from simkit.adapters.instrumentation import Instrumentation
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.testing import AdapterConformance
from simkit.testing.rules import APPLICATIONS, rules

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "adapters.md").read_text(encoding="utf-8")
FILES = {
    name: text for text, name in re.findall(r"^```python\n(# (\S+)\n.*?)^```$", PAGE, re.M | re.S)
}


def install(folder: Path) -> None:
    """Writes the example's files, and installs its adapter as pip would."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    found = re.search(
        r'^\[project\.entry-points\."simkit\.adapters"\]\nrelay = "(\w+)"$', PAGE, re.M
    )
    assert found is not None
    metadata = folder / "relay_simkit-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: relay-simkit\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[simkit.adapters]\nrelay = {found[1]}\n")
    (folder / "pytest.ini").write_text("[pytest]\n")


def held(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the suite on the example."""
    plugins = ("-p", "simkit.pytest_plugin", "-p", "no:cacheprovider", "-W", "error")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", *plugins, *options],
        cwd=folder, capture_output=True, text=True, check=False,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "100", "NO_COLOR": "1",
        },
    )  # fmt: skip


@pytest.fixture
def example(tmp_path: Path) -> Path:
    pytest.importorskip("openai", reason="openai is not installed")
    install(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_adapter_of_the_page_keeps_the_rules_and_is_under_100_lines(example: Path) -> None:
    done = held(example)

    assert " passed, 8 skipped in " in done.stdout.splitlines()[-1], done.stdout
    assert "relay, stream: not supported: relay has no streams" in done.stdout
    assert len(FILES["relay_simkit.py"].splitlines()) < 100


HOOKS = {
    "attribution": ('("work", "gather", ', '("gather", '),
    "parallel": ("group=beside.get(), ", ""),
    "nested": ('outer.id if outer else ""', '""'),
    "handoff": ("recorder.handoff_tools |= ", "unused = "),
    "filter": ("self._recorder.filtered(working.get(), was, now, agent.shown.__name__)", "pass"),
    "state": (' + [(relay.Talk, "note")]', ""),
    "reducer": ('{"notes": [text]}', '{"notes": talk.notes}'),
    "tools": (', "call")', ")"),
    "cancel": ('status = "cancelled"', 'status = "done"'),
    "exception": ('working.get(), "failed"', 'working.get(), "done"'),
    "sessions": ("self._talks.setdefault(turn.session, ", "self._talks.setdefault(0, "),
}


@pytest.mark.slow
@pytest.mark.parametrize("rule", HOOKS)
def test_each_hook_of_the_example_is_needed_to_keep_its_rule(rule: str, example: Path) -> None:
    right, wrong = HOOKS[rule]
    text = FILES["relay_simkit.py"]
    assert text.count(right) == 1

    (example / "relay_simkit.py").write_text(text.replace(right, wrong), encoding="utf-8")
    done = held(example, "-k", f"is_kept and {rule}")

    assert "1 failed" in done.stdout
    assert f"the adapter 'relay' breaks the rule `{rule}` (docs/adapters.md):" in done.stdout


@pytest.mark.slow
def test_a_broken_rule_is_told_as_the_page_shows(example: Path) -> None:
    (shown,) = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    right, wrong = HOOKS["filter"]
    text = FILES["relay_simkit.py"].replace(right, wrong)
    (example / "relay_simkit.py").write_text(text, encoding="utf-8")

    told = held(example, "-k", "is_kept and filter").stdout

    assert [part for part in shown.split("…\n") if part not in told] == []


BREAKING = {
    "it has left this behind": (
        "with installation, listeners.activate(self):",
        "installation.__enter__()\n        with listeners.activate(self):",
        "left_behind",
        "relay.work",
    ),
    "two runs differ": (
        '{"notes": [text]}',
        '{"notes": [text, id(talk)]}',
        "ten_runs and state",
        "is not the first one again",
    ),
    "others are heard": (
        "listener = listeners.current()",
        "listener = (listeners._working or [(None, None)])[0][0]",
        "at_once",
        "beside others:",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKING)
def test_what_no_conversation_shows_is_found_too(name: str, example: Path) -> None:
    right, wrong, which, told = BREAKING[name]
    text = FILES["relay_simkit.py"]
    assert text.count(right) == 1

    (example / "relay_simkit.py").write_text(text.replace(right, wrong), encoding="utf-8")
    done = held(example, "-k", which)

    assert "1 failed" in done.stdout
    assert told in done.stdout


@pytest.mark.slow
def test_an_application_that_shows_nothing_is_refused(example: Path) -> None:
    blind = "\n\nasync def solo(text):\n    return text\n\n\nchain = solo\n"
    with (example / "relay_applications.py").open("a", encoding="utf-8") as file:
        file.write(blind)
    (example / "test_relay.py").write_text(
        FILES["test_relay.py"].replace("class TestRelay", "from simkit.testing import rules\n"
        "rules.rules()['attribution'].turns[0].update(expect={'reply': 'Hello'}, replies={})\n\n\n"
        "class TestRelay"), encoding="utf-8",
    )  # fmt: skip

    done = held(example, "-k", "tells_nothing and attribution")

    assert "the rule `attribution` holds for `relay_applications:chain` with the adapter " in (
        done.stdout
    )


@pytest.mark.slow
def test_a_missing_application_says_what_it_is_to_be(example: Path) -> None:
    text = FILES["relay_applications.py"].replace("nested = ", "unnamed = ")
    (example / "relay_applications.py").write_text(text, encoding="utf-8")

    done = held(example, "-k", "is_kept and nested")

    assert (
        "'relay_applications' has no application `nested`, which is to be this: "
        "`boss` has a tool `ask_helper(input)` that lets `helper` answer. An agent's instructions "
        "are `You are <name>.` "
        '→ Where the framework cannot do that, say why: `not_supported = {"nested": "…"}`.'
    ) in " ".join(done.stdout.split())


@pytest.mark.slow
def test_a_misspelt_name_of_what_is_not_supported_is_refused(example: Path) -> None:
    text = FILES["test_relay.py"].replace('"stream"', '"streams"')
    (example / "test_relay.py").write_text(text, encoding="utf-8")

    done = held(example, "-k", "is_declared")

    assert "neither an application nor a rule: streams." in done.stdout


@pytest.mark.slow
def test_an_adapter_that_is_not_installed_is_told(example: Path) -> None:
    (example / "relay_simkit-1.0.dist-info" / "entry_points.txt").unlink()

    done = held(example, "-k", "is_installed")

    assert "no adapter is installed under the name 'relay'" in done.stdout


def test_the_page_lists_the_rules_and_the_applications_as_they_are() -> None:
    kept = {
        name: (app, says, fix)
        for name, app, says, fix in re.findall(
            r"^\| `(\w+)` \| `(\w+)` \| (.+?) \| (.+) \|$", PAGE, re.M
        )
    }
    wanted = dict(
        re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.split("| application | what")[1], re.M)
    )

    assert kept == {
        name: (one.app, one.says, " ".join(one.fix.split())) for name, one in rules().items()
    }
    assert {name: wanted.get(name) for name in APPLICATIONS} == APPLICATIONS


def column(head: str) -> str:
    """Returns the first two columns of the rows of a table."""
    table = PAGE.split(f"| {head} |")[1].split("\n\n")[0]
    return "\n".join("|".join(row.split(" | ")[:2]) for row in table.splitlines()[2:])


def test_what_the_page_names_is_there_and_what_is_there_is_named() -> None:
    told = re.findall(r"`(\w+)\(", column("what happens"))
    flown = re.findall(r"^\| `(\w+)\(", column("method of a driver"), re.M)
    heard = re.findall(r"^\| `(\w+)\(", column("method of an instrumentation"), re.M)

    assert [name for name in told if not hasattr(TraceRecorder, name)] == []
    assert [name for name in flown if not hasattr(FrameworkDriver, name)] == ["restart"]
    assert hasattr(Restartable, "restart")
    assert [name for name in heard if not hasattr(Instrumentation, name)] == []
    assert [name for name in re.findall(r"\bapi\.(\w+)", PAGE) if name not in api.__all__] == []
    assert [name for name in api.__all__ if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_page_names_every_attribute_of_the_test_class() -> None:
    declared = [name for name in AdapterConformance.__annotations__ if not name.startswith("_")]

    assert [name for name in declared if f"| `{name}` |" not in PAGE] == []
