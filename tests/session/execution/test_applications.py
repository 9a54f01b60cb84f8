"""Each scenario of code has a process of its own in commands: no other one decides about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simkit import load, simulate
from simkit.trace.store import read_trace
from simkit.trace.views import view_of
from tests.cli.projects import CLIENT
from tests.own_processes import OWN_PROCESSES
from tests.processes import run_python

ROOT = Path(__file__).resolve().parents[3]

CHAT = """\
import os, signal, sqlite3, subprocess, threading
from datetime import datetime
from client import asked

{top}
HISTORY = []
IMPORTED = datetime.now().isoformat()


def setup():
    HISTORY.append({{"role": "user", "content": "the setup was here"}})


def run(text):
    if text == "exit":
        os._exit(3)
    if text == "stop":
        raise KeyboardInterrupt
    if text == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if text == "secret":
        text = os.environ["SERVICE_TOKEN"] = "t0ken-9f3b61ac"
    HISTORY.append({{"role": "user", "content": text}})
    answer = asked([{{"role": "system", "content": "You are the bot."}}, *HISTORY])
    HISTORY.append({{"role": "assistant", "content": answer}})
    return answer
"""
TICKETS = """\
import itertools
from client import asked
IDS = itertools.count(1)

def run(text):
    return asked([{"role": "user", "content": f"Ticket {next(IDS)}: {text}"}])
"""
SCENARIO = """\
version: 1
scenario: {name}
pipeline: {module}:run
app: {{path: [.]{app}}}
agents: {{bot: {{messages: {{$any: true}}}}}}
turns: [{{user: {text}, replies: {{bot: {answer}}}{expect}}}]
"""


def write(name: str, text: str) -> None:
    Path(name).write_text(text, encoding="utf-8")


def scenario(
    name: str, text: str, answer: str = "Hello.", *, module: str, app: str = "", count: int = 0
) -> str:
    """A scenario of one turn; ``count`` is how many messages the model must be sent."""
    any_ones = ", ".join(["{$any: true}"] * count)
    claim = f", expect: {{context: {{bot: {{messages: [{any_ones}]}}}}}}" if count else ""
    return SCENARIO.format(
        name=name, module=module, app=app and f", {app}", text=text, answer=answer, expect=claim
    )


def chat(module: str, top: str = "") -> None:
    write(f"{module}.py", CHAT.format(top=top))


def replay(*arguments: str) -> tuple[int, dict[str, Any]]:
    """Replay in a process; return the exit code, and each scenario's outcome and findings."""
    done = run_python("-m", "simkit", "replay", "--format", "json", *arguments)
    assert done.stdout, done.stderr
    return done.returncode, {
        scenario["name"]: scenario for scenario in json.loads(done.stdout)["scenarios"]
    }


def digests(*arguments: str) -> dict[str, str]:
    return {name: result["digest"] for name, result in replay(*arguments)[1].items()}


def findings(result: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in result["findings"]]


@pytest.fixture(autouse=True)
def _in_folder(cwd: Path) -> None:
    write("client.py", CLIENT)


TWO = ("first", "I am Ada", "Hello."), ("second", "Who am I", "I do not know.")


def two(module: str, app: str = "") -> None:
    for name, text, answer in TWO:
        write(
            f"{name}.scenario.yaml", scenario(name, text, answer, module=module, app=app, count=2)
        )


@pytest.mark.slow
@OWN_PROCESSES
def test_a_list_in_a_module_reaches_no_other_scenario() -> None:
    chat("listing")
    two("listing")

    code, results = replay("first.scenario.yaml", "second.scenario.yaml")

    assert (code, [result["outcome"] for result in results.values()]) == (0, ["held", "held"])


@pytest.mark.slow
def test_digests_are_equal_alone_in_company_in_reverse_at_a_time_and_in_one_process() -> None:
    chat("listing")
    two("listing")
    files = ("first.scenario.yaml", "second.scenario.yaml")

    together = digests(*files)

    assert {**digests(files[0]), **digests(files[1])} == together
    assert digests(*files[::-1]) == together
    assert digests("-j", "2", *files) == together
    assert replay("--verify", *files)[0] == 0
    alone = digests("--in-process", files[1])
    assert alone == {"second": together["second"]}


@pytest.mark.slow
def test_in_one_process_what_is_carried_over_is_an_error() -> None:
    chat("listing")
    two("listing")

    code, results = replay("--in-process", "first.scenario.yaml", "second.scenario.yaml")

    assert (code, findings(results["first"])) == (1, [])
    first, *others = results["second"]["findings"]
    assert first["id"] == "RUN-08"
    assert all(word in first["what"] for word in ("I am Ada", "'first'", "`listing.HISTORY`"))
    assert [other["id"] for other in others] == ["claim"]


@pytest.mark.slow
def test_in_one_process_a_changed_variable_alone_is_a_note() -> None:
    write("tickets.py", TICKETS)
    for name in ("first", "second"):
        write(f"{name}.scenario.yaml", scenario(name, "Hi", module="tickets"))

    _, results = replay("--in-process", "first.scenario.yaml", "second.scenario.yaml")

    assert [result["outcome"] for result in results.values()] == ["held", "held"]
    assert results["first"]["noted"] == []
    (note,) = results["second"]["noted"]
    assert note["id"] == "RUN-08"
    assert note["what"].endswith("\n`tickets.IDS` by 'first'")


@pytest.mark.slow
@OWN_PROCESSES
@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("exit", "ending.py:16 called os._exit(3)"),
        ("stop", "ending.py:18 raised KeyboardInterrupt"),
        ("signal", "by signal SIGKILL"),
    ],
)
def test_the_end_of_its_process_is_a_finding_with_its_trace_and_the_next_one_runs(
    text: str, how: str
) -> None:
    chat("ending")
    first = "turns: [{user: secret, replies: {bot: Hello.}}, "
    a = scenario("it ends", text, module="ending").replace("turns: [", first)
    write("a.scenario.yaml", a)
    write("b.scenario.yaml", scenario("it goes on", "Hi", module="ending"))

    code, results = replay("a.scenario.yaml", "b.scenario.yaml")

    (finding,) = results["it ends"]["findings"]
    assert (code, finding["id"], finding["turn"]) == (1, "RUN-09", 2)
    assert "ended in turn 2" in finding["what"]
    assert how in finding["what"]
    assert results["it goes on"]["outcome"] == "held"
    trace = read_trace(results["it ends"]["trace"])
    view = view_of(trace.events)
    assert [call.reply.content for call in view.calls.values() if call.reply] == ["Hello."]
    assert [turn.error and turn.error.type for turn in view.turns] == [None, "ProcessEnded"]
    assert b"[redacted:env]" in trace.encoded()
    assert b"t0ken" not in trace.encoded()


def test_where_a_scenario_asks_for_its_process_its_end_is_told_alike() -> None:
    chat("ending_alone")
    first = "turns: [{user: Hi, replies: {bot: Hello.}}, "
    text = scenario("it ends", "exit", module="ending_alone", app="process: own")
    write("a.scenario.yaml", text.replace("turns: [", first))
    (case,) = load("a.scenario.yaml")

    outcome = simulate(case)

    (finding,) = outcome.judgement.findings
    assert (finding.id, finding.turn) == ("RUN-09", 2)
    assert finding.what.endswith("ended in turn 2: ending_alone.py:16 called os._exit(3)")
    assert [c.reply.content for c in outcome.view.calls.values() if c.reply] == ["Hello."]
    assert [turn.error and turn.error.type for turn in outcome.view.turns] == [None, "ProcessEnded"]


@pytest.mark.slow
@OWN_PROCESSES
def test_a_breakpoint_says_how_to_stop_at_it() -> None:
    write("stopping.py", "def run(text):\n    breakpoint()\n")
    write("s.scenario.yaml", scenario("it stops", "Hi", module="stopping"))

    code, results = replay("s.scenario.yaml")

    assert code == 2
    assert "stopping.py:2: `breakpoint()` needs the terminal" in results["it stops"]["error"]
    assert "--in-process" in results["it stops"]["error"]


TOPS = {
    "a thread": "threading.Thread(target=threading.Event().wait, daemon=True).start()",
    "a file": "DATABASE = sqlite3.connect('kept.sqlite', check_same_thread=False)",
    "a loop": "import asyncio\nLOOP = asyncio.new_event_loop()",
}


@pytest.mark.slow
@pytest.mark.parametrize("top", TOPS.values(), ids=TOPS)
def test_what_an_import_leaves_open_is_not_shared(top: str) -> None:
    chat("leaving", f"{top}\nopen('imports', 'a').write('x')")
    two("leaving")

    code, _ = replay("first.scenario.yaml", "second.scenario.yaml")

    # Tried once, and then once for each scenario.
    assert (code, Path("imports").read_text()) == (0, "xxx")


@pytest.mark.slow
@OWN_PROCESSES
@pytest.mark.parametrize("app", ["", "fresh: true"])
def test_an_application_is_imported_once_for_all(app: str) -> None:
    chat("once", "open('imports', 'a').write('x')")
    two("once", app)

    code, _ = replay("first.scenario.yaml", "second.scenario.yaml")

    assert (code, Path("imports").read_text()) == (0, "x")


LATE = """\
def run(text):
    import late
    return "Hello."
"""


@pytest.mark.slow
@OWN_PROCESSES
@pytest.mark.parametrize("top", ["", TOPS["a thread"]], ids=["once", "what each must have alone"])
def test_what_a_run_imports_later_ones_need_not(top: str) -> None:
    write("early.py", LATE)
    Path("site-packages").mkdir()
    library = f"import threading\n{top}\nopen('imports', 'a').write('x')\n"
    write("site-packages/late.py", library)
    for name in "abcde":
        text = scenario(name, "Hi", module="early").replace("[.]", "[., site-packages]")
        write(f"{name}.scenario.yaml", text.replace(", replies: {bot: Hello.}", ""))

    code, _ = replay(*(f"{name}.scenario.yaml" for name in "abcde"))

    # In the first scenario, for a trial, and then once for all; or for each of the other four.
    assert (code, Path("imports").read_text()) == (0, "xxxxxx" if top else "xxx")


@pytest.mark.slow
def test_a_setup_comes_before_each_import() -> None:
    chat("prepared", "open('imports', 'a').write('x')")
    for name, text, answer in TWO:
        write(
            f"{name}.scenario.yaml",
            scenario(name, text, answer, module="prepared", app="setup: prepared:setup", count=3),
        )

    code, results = replay("first.scenario.yaml", "second.scenario.yaml")

    assert code == 0, results
    assert Path("imports").read_text() == "xx"


@pytest.mark.slow
def test_sessions_are_compared_with_a_run_in_another_process() -> None:
    chat("shared", "open('imports', 'a').write('x')")
    write(
        "sessions.scenario.yaml",
        "version: 1\nscenario: two sessions\npipeline: shared:run\napp: {path: [.]}\n"
        "agents: {bot: {messages: {$any: true}}}\nturns:\n"
        "  - {user: I am Ada, replies: {bot: Hello.}}\n"
        "  - {user: Who am I, session: other, replies: {bot: I do not know.}}\n",
    )

    code, results = replay("sessions.scenario.yaml")

    assert code == 1
    assert "STA-08" in findings(results["two sessions"])
    assert Path("imports").read_text() == "x"


@pytest.mark.slow
def test_pytest_gives_a_scenario_a_process_of_its_own_where_it_asks_for_one() -> None:
    chat("asked")
    two("asked", "process: own")

    done = run_python("-m", "pytest", "-q", "first.scenario.yaml", "second.scenario.yaml")

    assert done.returncode == 0, done.stdout
