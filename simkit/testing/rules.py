"""Rules: required observations of an adapter, each with an application, and texts of failures.

A silent adapter shows which rules prove something.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import msgspec

from simkit.adapters.framework_driver import (
    DRIVER_OPTIONS,
    AdapterContext,
    FrameworkDriver,
    standing_in,
)
from simkit.adapters.instrumentation import Instrumentation
from simkit.adapters.recorder import sessions
from simkit.adapters.recorder.trace import TraceRecorder
from simkit.adapters.tool_use import ToolUse
from simkit.checks.judge import Outcome
from simkit.core.errors import PipelineError
from simkit.language.yaml import load_text
from simkit.report.text import findings_text
from simkit.report.wording import event_lines, wrapped
from simkit.runtime.ports import UserTurn
from simkit.spec.scenario.apps import App
from simkit.trace import events as e
from simkit.trace.events import PipelineFacts
from simkit.trace.store import Trace

FILE: Final = Path(__file__).with_name("rules.yaml")


class ConformanceRule(msgspec.Struct, frozen=True):
    """One rule of ``docs/how-to/adapters.md``, as a conversation that shows whether it is kept."""

    rule: str
    """Its name."""
    app: str
    """The application of the conversation."""
    says: str
    fix: str
    """Advice on how to keep it."""
    turns: tuple[Mapping[str, Any], ...]
    by_prompt: bool = False
    """Whether a silent adapter breaks it even if prompts attribute model calls."""


@cache
def rules() -> Mapping[str, ConformanceRule]:
    """Return every rule by its name."""
    text = FILE.read_text(encoding="utf-8")
    rules_read = (
        msgspec.convert(document.data, ConformanceRule) for document in load_text(text, FILE.name)
    )
    return {document.rule: document for document in rules_read}


APPLICATIONS: Final = msgspec.yaml.decode(
    FILE.with_name("applications.yaml").read_bytes(), type=dict[str, str]
)
"""Application to its description. The instructions of an agent are `You are <its name>.`"""


def lines_by(replies: Mapping[str, Any], tool: tuple[str, str] | None) -> dict[str, Any]:
    """Return reply lines by agent, in which each text is a call of ``tool`` with that argument."""
    if tool is None:
        return dict(replies)
    return {
        agent: [_line_by(line, *tool) for line in lines]
        if isinstance(lines, list)
        else _line_by(lines, *tool)
        for agent, lines in replies.items()
    }


def _line_by(line: Any, tool: str, argument: str) -> Any:
    options = {"text": line} if isinstance(line, str) else dict(line)
    if {"calls", "handoff"} & {*options} or "text" not in options:
        return line
    return {"calls": [{tool: {argument: options.pop("text")}}], **options}


def prompts_of(rule: ConformanceRule) -> dict[str, Any]:
    """Return attribution rules by the prompts of a rule's agents, for a scenario."""
    agents = dict.fromkeys(name for turn in rule.turns for name in turn.get("replies", ()))
    prompt = "You review." if rule.app == "parallel" else "You are {}."
    return {name: {"system": {"$contains": prompt.format(name)}} for name in agents}


_HEAD = (e.RunStarted, e.SessionStarted, e.RunFinished)
"""Events that every trace has, whatever an adapter reports."""


def broken_text(adapter: str, entry: str, rule: ConformanceRule, outcome: Outcome | str) -> str:
    """Return the text of a broken rule; ``outcome`` is its run, or why it could not continue."""
    return "\n".join(
        (
            f"the adapter {adapter!r} breaks the rule `{rule.rule}` (docs/how-to/adapters.md):",
            *wrapped(rule.says, "  "),
            *wrapped(f"`{entry}` is to be this: {APPLICATIONS[rule.app]}", "  "),
            "",
            *_outcome_lines(outcome),
            "",
            *wrapped(rule.fix, "  → ", "    "),
        )
    )


def proves_nothing_text(adapter: str, entry: str, rule: ConformanceRule) -> str:
    """Return the text of a rule that holds although nothing was reported."""
    return "\n".join(
        (
            f"the rule `{rule.rule}` holds for `{entry}` with the adapter {adapter!r} silenced:",
            *wrapped(
                "the application shows all of it by itself, so that the rule proves nothing. "
                f"It is to be this: {APPLICATIONS[rule.app]}",
                "  ",
            ),
        )
    )


def missing_text(applications: str, name: str) -> str:
    """Return the text of a missing application."""
    return "\n".join(
        (
            f"{applications!r} has no application `{name}`, which is to be this:",
            *wrapped(f"{APPLICATIONS[name]} An agent's instructions are `You are <name>.`", "  "),
            *wrapped(
                "Where the framework cannot do that, say why: "
                f'`not_supported = {{"{name}": "…"}}`.',
                "  → ",
                "    ",
            ),
        )
    )


def _outcome_lines(outcome: Outcome | str) -> Iterator[str]:
    if isinstance(outcome, str):
        yield "the run could not go on:"
        yield from (f"  {line}" for line in outcome.splitlines())
        return
    yield findings_text(outcome.judgement.findings)
    yield ""
    yield "the trace holds:"
    events = [event for event in outcome.trace.events if not isinstance(event, _HEAD)]
    yield from event_lines(events)


# The silent adapter: it runs as usual and reports nothing


SPANS: Final = "opentelemetry.trace"
"""The adapter that attributes calls that no other attributes."""


@contextmanager
def silenced(
    name: str, adapter: ModuleType, output_tool: tuple[str, str] | None = None
) -> Iterator[None]:
    """Let an adapter write where nobody reads; nor do the framework's own spans tell anything.

    A call of the ``output_tool`` still ends a run, as a text does.
    """
    tools = patch.object(sessions, "NO_TOOLS", dict([output_tool] if output_tool else []))
    with standing_in(name, _Silent(adapter)), without_spans(name), tools:
        yield


@contextmanager
def without_spans(name: str = "") -> Iterator[None]:
    """Turn the spans' adapter off, unless it is the adapter ``name``."""
    if name == SPANS:
        yield
        return
    with standing_in(SPANS, _Nobody()):
        yield


class _Nobody:
    """An adapter module without driver and instrumentation."""

    def driver(self, subject: Any, app: App, adapter_context: AdapterContext) -> None:
        """Return None."""


class _Deaf:
    """A double of an adapter context: its reports are in no trace."""

    def __init__(self, real: AdapterContext) -> None:
        recorder = real.recorder
        self._real = recorder
        self.recorder = TraceRecorder(Trace(), recorder.clock, recorder.count, recorder.limits)
        self.adapter_context = AdapterContext(self.recorder, real.caller, ForReal(), real.halt)

    def follow(self) -> None:
        """Begin the current turn in the double."""
        if self.recorder.turn != self._real.turn:
            self.recorder.begin_turn(self._real.turn, self._real.session, "", "")


class ForReal(ToolUse):
    """Executes each tool's call, and reports none."""

    def __init__(self) -> None:
        """Do without a run."""

    def __call__(
        self,
        tool: str,
        args: Any,
        real: Callable[[], Any],
        request: Any = None,
        returns: Any = None,
    ) -> Any:
        """Return the result, or an awaitable of it."""
        return real()

    async def in_loop(
        self,
        tool: str,
        args: Any,
        real: Callable[[], Any],
        request: Any = None,
        returns: Any = None,
    ) -> Any:
        """Return the result."""
        result = real()
        return await result if inspect.isawaitable(result) else result


class _Silent:
    """The silent replacement of an adapter's module."""

    def __init__(self, adapter: ModuleType) -> None:
        self._adapter = adapter
        self._doubles: dict[int, _Deaf] = {}
        """Doubles by recorder; driver and instrumentation share one."""

    def _double(self, adapter_context: AdapterContext) -> _Deaf:
        return self._doubles.setdefault(id(adapter_context.recorder), _Deaf(adapter_context))

    def driver(
        self, subject: Any, app: App, adapter_context: AdapterContext
    ) -> FrameworkDriver | None:
        """Return a silent driver, if the adapter has one for this subject."""
        make = getattr(self._adapter, "driver", None)
        double = self._double(adapter_context)
        make_driver = make(subject, app, double.adapter_context) if make is not None else None
        return None if make_driver is None else _SilentPilot(make_driver, double)

    def instrumentation(self, adapter_context: AdapterContext) -> Instrumentation:
        """Return a silent instrumentation."""
        make = getattr(self._adapter, "instrumentation", None)
        double = self._double(adapter_context)
        return _SilentInstrument(make(double.adapter_context) if make is not None else None, double)


class _SilentPilot:
    """A driver that runs and reports no agent."""

    def __init__(self, driver: FrameworkDriver, double: _Deaf) -> None:
        self._driver, self._double = driver, double
        self.name = driver.name
        self.app_options = getattr(driver, "app_options", DRIVER_OPTIONS)

    def facts(self, facts: PipelineFacts) -> PipelineFacts:
        """Return the driver's facts."""
        return self._driver.facts(facts)

    def run_turn(self, turn: UserTurn) -> Any:
        """Run one turn."""
        self._double.follow()
        return self._driver.run_turn(turn)

    def run_now(self) -> None:
        """Return None."""

    def ends_runs(self) -> bool:
        """Return false."""
        return False

    def close(self) -> None:
        """Close the driver."""
        self._driver.close()


class _SilentInstrument:
    """An instrumentation that observes and reports nothing."""

    def __init__(self, instrumentation: Any, double: _Deaf) -> None:
        self._instrumentation, self._double = instrumentation, double

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Switch it on."""
        self._double.follow()
        if self._instrumentation is None:
            yield
            return
        work: AbstractContextManager[None] = self._instrumentation.at_work()
        with work:
            yield

    def run_now(self) -> None:
        """Return None."""

    def reply(self, returned: Any) -> Any:
        """Return the instrumentation's reading of the pipeline's result."""
        return returned if self._instrumentation is None else self._instrumentation.reply(returned)

    def failure(self, problem: Exception) -> PipelineError | None:
        """Return None."""
        return None

    def close(self) -> None:
        """Close the instrumentation."""
        if self._instrumentation is not None:
            self._instrumentation.close()
