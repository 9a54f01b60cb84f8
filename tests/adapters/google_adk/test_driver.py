"""The Agent Development Kit as it is: what is claimed to be seen is seen, and by these hooks."""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "google.adk", reason="google-adk is not installed: its tests have an environment of their own"
)

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.platform import uuid as adk_uuid
from google.adk.plugins.plugin_manager import PluginManager
from google.adk.runners import InMemoryRunner, Runner
from google.adk.tools import FunctionTool

from simkit.adapters.google_adk import log as adk_log
from simkit.adapters.google_adk import runner
from simkit.adapters.google_adk import runner as adk_runner
from simkit.adapters.google_adk.log import AdkLog, Place, States, place_now
from simkit.core.errors import SimkitError
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Prepared
from simkit.testing.rules import without_spans
from tests.adapters.running import APPS, digests_of, passes, run_app, scenario_in

pytestmark = [
    # The ADK's workflow agents are said to make way for its graphs, one day.
    pytest.mark.filterwarnings("ignore:.* is deprecated in favor of Workflow:DeprecationWarning"),
    # So it says of what its own agents that are tools do.
    pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning"),
]

DESK, TEAM = APPS / "google_adk_desk.scenario.yaml", APPS / "google_adk_team.scenario.yaml"


def scenario(start: str) -> Prepared:
    return scenario_in(start, DESK, TEAM)


@pytest.mark.parametrize(
    "start",
    [
        "desk: control passes",
        "desk: an agent is run in a thread",
        "team: agents in sequence",
        "team: agents that are tools",
    ],
)
def test_many_runs_have_one_digest(start: str) -> None:
    prepared = scenario(start)

    assert len(digests_of(prepared)) == 1


def test_ids_that_the_adk_draws_are_nowhere_in_a_trace() -> None:
    drawn: list[str] = []
    before = adk_runner._counted

    def listed(real: Any) -> Any:
        counter = before(real)

        def draw() -> str:
            drawn.append(counter())
            return drawn[-1]

        return draw

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adk_runner, "_counted", listed)
        outcome = simulate(scenario("desk: control passes"))

    text = outcome.trace.encoded().decode()
    assert outcome.passed
    assert len(drawn) > 50
    assert [item for item in drawn if item in text] == []


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Stands for what nobody writes down."""


async def _nothing_later(*args: Any, **kwargs: Any) -> None:
    """Stands for what nobody waits for."""


def _as_it_was(before: Any) -> Any:
    """Stands for a hook that is not there."""
    return before


HOOKS: dict[str, tuple[Any, str, Any, str]] = {
    "agents": (adk_runner, "_worked", _as_it_was, "team: a graph"),
    "runners": (adk_runner, "_flown", _as_it_was, "team: agents that are tools"),
    "requests": (adk_runner, "_wrap_requests", _as_it_was, "desk: control passes"),
    "tools": (adk_runner, "_carried_out", _as_it_was, "desk: answers come in pieces"),
    "callbacks": (adk_runner, "_listed", _as_it_was, "desk: control passes"),
    "plugins": (adk_runner, "heard_plugins", lambda *args: (), "desk: plugins answer"),
    "sessions": (adk_runner, "hear_sessions", _nothing, "desk: control passes"),
    "include_contents": (adk_runner, "shortened", _nothing_later, "desk: a judge"),
    "filters": (runner._Look, "again", _nothing, "desk: control passes"),
    "the tool that passes control": (adk_runner, "ROUTERS", {}, "desk: control passes"),
    "what agents make": (AdkLog, "event_made", _nothing, "team: control that a tool passes on"),
    "what agents say": (AdkLog, "_note_words", _nothing, "desk: plugins answer"),
    "what waits": (AdkLog, "_note_waiting", _nothing, "desk: what is asked for"),
    "who leaves": (
        AdkLog,
        "_left_by",
        lambda self, folder, agent: folder,
        "team: control that passes",
    ),
    "parallel runs": (AdkLog, "_group", lambda self, outer: "", "team: agents in sequence"),
    "transfers not made": (AdkLog, "_told_handoffs", _nothing, "team: of two transfers"),
    "state that is there": (States, "observe_state", _nothing, "desk: control passes"),
    "state that is written": (States, "wrote", _nothing, "team: an agent that is code"),
    "summaries": (adk_runner, "_summarised", _as_it_was, "team: old events"),
    "who gives tasks": (AdkLog, "_giver", _nothing, "team: a task is given"),
    "who goes on later": (adk_log, "_is_answer", lambda last: True, "team: a task is given"),
    "what agents are given": (AdkLog, "_given_to", _nothing, "team: a task is given"),
    "output by a tool": (adk_runner, "OUTPUT_TOOLS", (), "desk: an expert"),
    "credentials": (adk_runner, "_default_credentials", _as_it_was, "desk: a model on Vertex"),
    "what was said last": (Place, "say", _nothing, "team: a loop"),
}


@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_removed_turns_a_scenario_red(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, nothing, start = HOOKS[name]
    prepared = scenario(start)
    assert passes(prepared)

    monkeypatch.setattr(owner, attribute, nothing)

    with without_spans():
        assert not passes(prepared)


REPLACED = (
    (Runner, "run_async"),
    (BaseAgent, "run_async"),
    (PluginManager, "run_before_model_callback"),
    (PluginManager, "run_before_tool_callback"),
    (LlmAgent, "canonical_before_model_callbacks"),
    (FunctionTool, "run_async"),
    (adk_uuid, "new_uuid"),
)


def test_what_is_replaced_in_the_adk_is_put_back() -> None:
    before = [vars(owner)[name] for owner, name in REPLACED]

    assert passes(scenario("desk: control passes"))

    assert [vars(owner)[name] for owner, name in REPLACED] == before
    assert adk_runner.installation.replaced == []


def test_who_draws_ids_for_the_application_draws_them_again_behind_a_scenario() -> None:
    def drawn() -> str:
        adk_uuid.set_id_provider(lambda: "the application's own")
        assert passes(scenario("desk: control passes"))
        return adk_uuid.new_uuid()

    assert contextvars.copy_context().run(drawn) == "the application's own"


def test_the_applications_own_plugins_are_all_there_are() -> None:
    ran = run_app(
        "google_adk_desk:Asking",
        "turns: [{user: Hi, replies: {lonely: Hi}, expect: {agents: [lonely]}}]",
    )

    assert ran.judgement.passed
    assert importlib.import_module("google_adk_desk").runner.plugin_manager.plugins == []


def test_agents_run_outside_a_scenario_are_left_alone() -> None:
    assert passes(scenario("desk: a model that sends nothing"))
    desk = importlib.import_module("google_adk_desk")

    events = asyncio.run(InMemoryRunner(agent=desk.parrot).run_debug("Hello", quiet=True))

    assert [event.content.parts[0].text for event in events if event.content] == ["Hello"]
    assert all(len(event.id) == 36 for event in events)


def test_what_the_adk_logs_reaches_the_applications_handlers_and_no_others(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    assert passes(scenario("desk: a tool that raises"))

    assert "no order A-0" in caplog.text
    assert capfd.readouterr().err == ""
    for name in ("google_adk", "google_genai"):
        handlers = logging.getLogger(name).handlers
        assert [handler for handler in handlers if isinstance(handler, logging.NullHandler)] == []


MODULES = {
    "the agent's module": "google_adk_package.agent:root_agent",
    "the package": "google_adk_package:agent",
    "a name in the package": "google_adk_package:root_agent",
}


@pytest.mark.parametrize("name", MODULES)
def test_an_application_in_the_adks_layout_is_named_by_its_module_or_its_agent(
    name: str, tmp_path: Path
) -> None:
    package = tmp_path / "google_adk_package"
    package.mkdir()
    imports = "from . import agent\nfrom .agent import root_agent\n"
    (package / "__init__.py").write_text(imports)
    (package / "agent.py").write_text(
        "from google.adk.agents import Agent\n"
        "root_agent = Agent(name='host', model='gemini-2.5-flash', instruction='You host.')\n"
    )

    ran = run_app(
        MODULES[name],
        """
        app: {path: [.], fresh: true}
        turns: [{user: Hi, replies: {host: Hello}, expect: {reply: Hello, agents: [host]}}]
        """,
        tmp_path,
    )

    assert ran.judgement.findings == ()


TEXT = """
import asyncio
from google.adk.agents import LlmAgent, ParallelAgent, SequentialAgent
from google.adk.runners import InMemoryRunner

def agent(name):
    return LlmAgent(name=name, model="gemini-2.5-flash", instruction=f"You are {name}.")

def shift(name):
    return SequentialAgent(name=f"{name}_shift", sub_agents=[agent(name)])

async def ask(one, text, steps):
    for _ in range(steps):
        await asyncio.sleep(0)
    await InMemoryRunner(agent=one).run_debug(text, quiet=True)

async def agents(text):
    await asyncio.gather(ask(agent("left"), text, 0), ask(agent("right"), text, 3))

async def workflows(text):
    await asyncio.gather(ask(shift("left"), text, 0), ask(shift("right"), text, 3))

branches = ParallelAgent(name="both", sub_agents=[shift("left"), agent("right")])
"""
GROUPS = {
    "agents": "[[left, right]]",
    "workflows": "[[left_shift, right_shift], left, right]",
    "branches": "[both, [left_shift, right], left]",
}


@pytest.mark.parametrize("name", GROUPS)
def test_what_is_begun_side_by_side_is_one_group(name: str, tmp_path: Path) -> None:
    (tmp_path / "google_adk_beside.py").write_text(TEXT)

    ran = run_app(
        f"google_adk_beside:{name}",
        f"""
        app: {{path: [.], fresh: true}}
        turns: [{{user: Hi, replies: {{left: L, right: R}}, expect: {{agents: {GROUPS[name]}}}}}]
        """,
        tmp_path,
    )

    assert ran.judgement.findings == ()


LISTS = """
from google.adk.agents import LlmAgent
from google.adk.tools import AgentTool, BaseTool, FunctionTool
from google.genai import types


def listed(word: str) -> list[str]:
    "Looks a word up."
    return [word]


async def later(word: str) -> list[str]:
    "Looks a word up."
    return [word]


def plain(word: str) -> str:
    "Looks a word up."
    return word


class Own(BaseTool):
    def _get_declaration(self):
        word = types.Schema(type="OBJECT", properties={"word": types.Schema(type="STRING")})
        return types.FunctionDeclaration(name=self.name, description="", parameters=word)

    async def run_async(self, *, args, tool_context) -> list[str]:
        return [args["word"]]


agent = LlmAgent(name="clerk", model="gemini-2.5-flash", instruction="You are clerk.",
                 tools=[listed, FunctionTool(later), plain, Own(name="own", description="")])
"""


@pytest.mark.parametrize(
    ("tool", "results", "is_refused"),
    [
        ("listed", "[a4]", True),
        ("later", "[a4]", True),
        ("own", "[a4]", True),
        ("plain", "[a4]", False),
        ("listed", "{returns: [a4]}", False),
        ("listed", "[[a4]]", False),
    ],
)
def test_a_tool_that_returns_lists_is_not_answered_by_a_part_of_one(
    tmp_path: Path, tool: str, results: str, is_refused: bool
) -> None:
    (tmp_path / "adk_lists.py").write_text(LISTS, encoding="utf-8")
    turn = f"""
        turns:
          - user: Which seats?
            replies: {{clerk: [{{calls: [{{{tool}: {{word: seats}}}}]}}, Three.]}}
            tool_results: {{{tool}: {results}}}
            expect: {{reply: Three.}}
        """

    if is_refused:
        with pytest.raises(SimkitError, match=rf'Write `{tool}: {{returns: \["a4"\]}}`'):
            run_app("adk_lists:agent", turn, tmp_path)
    else:
        assert run_app("adk_lists:agent", turn, tmp_path).judgement.findings == ()


REFUSED: dict[str, tuple[str, str, str]] = {
    "a tool that nobody has": (
        "google_adk_team:boss",
        "turns: [{user: Hi, replies: {boss: Hi}, tool_results: {german: Hallo}}]",
        "no model was offered tool `german`. Offered: french, spanish.",
    ),
    "an agent to whom nobody may pass control": (
        "google_adk_team:double",
        "turns: [{user: Hi, replies: {double: {handoff: {to: three}}}}]",
        "agent 'double' is offered no tool that passes control to 'three'. "
        "Offered: transfer_to_agent (to one, two).",
    ),
    "a way to run agents that there is not": (
        "google_adk_team:boss",
        "app: {path: [.], call: run_live}\nturns: [{user: Hi, replies: {boss: Hi}}]",
        "an agent is run by run_async, run: not by `run_live`",
    ),
    "an answer that nobody waits for": (
        "google_adk_team:boss",
        "turns: [{resume: true, replies: {boss: Hi}}]",
        "turn 1 answers an interrupt, and no tool call waits for an answer.",
    ),
    "a restart that would lose what was said": (
        "google_adk_team:boss",
        "turns: [{user: Hi, replies: {boss: Hi}}, {user: Hi, restart: true, replies: {boss: Hi}}]",
        "cannot be restarted: its sessions are kept in memory.",
    ),
    "a reply that fits no schema": (
        "google_adk_desk:judge",
        "turns: [{user: Hi, replies: {judge: {json: {is_fair: maybe}}}}]",
        "is_fair",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_served_is_refused(name: str) -> None:
    pipeline, text, says = REFUSED[name]

    with pytest.raises(SimkitError) as caught:
        run_app(pipeline, text)

    assert says in str(caught.value)


def test_scenarios_that_run_at_once_hear_only_their_own() -> None:
    mine, yours = scenario("desk: control passes"), scenario("team: agents in sequence")
    alone = [simulate(item).trace.digest() for item in (mine, yours)]

    with ThreadPoolExecutor(2) as pool:
        together = [item.trace.digest() for item in pool.map(simulate, (mine, yours))]

    assert together == alone


def test_nothing_of_what_it_hears_is_kept_between_turns() -> None:
    assert passes(scenario("desk: control passes"))

    assert place_now() is None
    assert adk_runner.current_log() is None
