"""Scenarios written inside tests: YAML text in, trace, view and judgement out.

    ran = run_yaml(PIPELINE, '''
        turns:
          - user: Hi
            replies: {helper: Hello}
    ''')
    assert shown(ran.context("helper").messages) == ["system: Help.", "user: Hi"]

What every document must say (``version``, ``pipeline``, ``scenario``) may be left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple, TypeVar

import msgspec

from simkit.checks.judge import Judgement
from simkit.core.errors import SourceError
from simkit.core.messages import Message
from simkit.language.yaml import Document, DocumentCache, load_text
from simkit.session.simulate import run, simulate
from simkit.spec.scenario.files import Library, Prepared, ScenarioCase
from simkit.trace.events import AnyEvent, RunFinished
from simkit.trace.store import Trace
from simkit.trace.views import CallView, ContextView, RunView, TurnView, View, view_of

FILE = "test.scenario.yaml"
AnEvent = TypeVar("AnEvent", bound=AnyEvent)


class Ran(NamedTuple):
    """What came of a scenario."""

    trace: Trace
    view: View
    judgement: Judgement

    def turn(self, number: int = -1) -> TurnView:
        """Returns a turn, counted from 1; the last one by default."""
        return self.view.turns[number - 1 if number > 0 else number]

    def calls(self, agent: str, turn: int = -1) -> list[CallView]:
        """Returns an agent's model calls in a turn."""
        return self.turn(turn).calls_by_agent.get(agent, [])

    def context(self, agent: str, turn: int = -1, call: int = 0) -> ContextView:
        """Returns what one model call of an agent received; its first one in the last turn."""
        return self.calls(agent, turn)[call].context

    def history(self, agent: str, turn: int = -1, section: str = "history") -> list[str]:
        """Returns what an agent's history section showed, as readable lines."""
        return message_lines(self.context(agent, turn).section(section))

    def runs(self, agent: str, turn: int = -1) -> list[RunView]:
        """Returns an agent's activations in a turn."""
        return [item for item in self.turn(turn).runs if item.agent == agent]

    def state(self, channel: str, turn: int = -1) -> Any:
        """Returns a channel as it was when a turn ended; messages as readable lines."""
        value = self.turn(turn).state[channel]
        if isinstance(value, (dict, str)) or value is None or not hasattr(value, "__iter__"):
            return value
        return [line(item) if isinstance(item, Message) else item for item in value]

    def events(self, kind: type[AnEvent]) -> list[AnEvent]:
        """Returns the events of a kind."""
        return events_of(self.trace, kind)

    def error(self, turn: int = -1) -> tuple[str, str] | None:
        """Returns type and message of the error that ended a turn."""
        error = self.turn(turn).error
        return None if error is None else (error.type, error.message)


def load(path: str | Path) -> list[Document]:
    """The documents of a file."""
    return DocumentCache().documents(str(path))


def prepared(pipeline: str, scenario: str) -> Prepared:
    """Returns a scenario ready to run, through the code that reads users' files."""
    text = f"{_headed(pipeline, 'pipeline')}\n---\n{_headed(scenario, 'scenario')}"
    library = Library()
    documents = load_text(text, FILE)
    library._changed[FILE] = documents
    name = str(documents[-1].data["scenario"])
    return library.prepared(ScenarioCase(FILE, name, len(documents) - 1, 1))


def _headed(text: str, kind: str) -> str:
    text = dedent(text).strip("\n")
    if f"{kind}:" in text:
        return text
    if kind == "pipeline":
        return f"version: 1\npipeline: p\n{text}"
    return f"version: 1\nscenario: s\npipeline: p\n{text}"


def run_yaml(pipeline: str, scenario: str, *, seed: int | None = None, fits: bool = True) -> Ran:
    """Runs a scenario and judges it.

    What the scenario says and the pipeline does not do raises SourceError, but for ``fits=False``.
    """
    outcome = simulate(prepared(pipeline, scenario), seed=seed)
    ran = Ran(outcome.trace, view_of(outcome.trace.events), outcome.judgement)
    if fits:
        refuse_misfits(ran)
    return ran


def refuse_misfits(ran: Ran) -> None:
    """Raises SourceError for what a scenario says and its pipeline does not do."""
    ended = ran.trace.events[-1]
    for misfit in ended.misfits if isinstance(ended, RunFinished) else ():
        findings = [finding for finding in ran.judgement.findings if finding.path == misfit.path]
        assert ran.judgement.exit_code == 1
        raise SourceError(findings[0].where, misfit.what)


def trace_yaml(pipeline: str, scenario: str, *, seed: int | None = None) -> Trace:
    """Runs a scenario without judging it."""
    return run(prepared(pipeline, scenario), seed=seed)


def events_of(trace: Trace, kind: type[AnEvent]) -> list[AnEvent]:
    """Returns the events of a kind."""
    return [event for event in trace.events if type(event) is kind]


def line(message: Message) -> str:
    """Returns a message on one line: ``assistant/nutrition: Done. [log_meal{"food":"pizza"}]``."""
    speaker = message.role if message.agent is None else f"{message.role}/{message.agent}"
    calls = [f"[{c.name}{msgspec.json.encode(c.args).decode()}]" for c in message.calls]
    content = [message.content] if message.content or not calls else []
    return f"{speaker}: {' '.join([*content, *calls])}"


def message_lines(messages: Iterable[Message]) -> list[str]:
    """Returns messages as readable lines."""
    return [line(message) for message in messages]


def dropped(context: ContextView) -> list[tuple[str, str, str]]:
    """Returns what a context's histories left out: line, what, by."""
    return [(line(drop.message), drop.what, drop.by) for drop in context.dropped()]
