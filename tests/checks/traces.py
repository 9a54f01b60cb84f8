"""Traces for tests: told step by step with sensible defaults, or run from YAML."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from simkit.checks.findings import Hit
from simkit.checks.lints import LintRunner
from simkit.core.messages import HANDOFF_PREFIX, Message, ToolCall
from simkit.runtime.context.rendering import chars_over_four, tokens_of
from simkit.session.simulate import run
from simkit.spec.scenario.files import Library, items_in
from simkit.trace import events as e
from simkit.trace.store import Trace, decoded
from simkit.trace.views import View

MESSAGES = e.ChannelFacts("append", "session")


def run_lints(trace: Trace, chosen: Collection[str] | None = None) -> tuple[View, list[Hit]]:
    """The view of a whole trace, and what the lints with these ids see in it, or all lints."""
    runner = LintRunner(chosen=chosen)
    runner.feed(trace)
    return runner.view, runner.hits


def hits_of(lint: str, trace: Trace) -> list[Hit]:
    """What a lint sees in a trace; it must see the same in the stored and decoded one."""
    _, hits = run_lints(trace, [lint])
    _, stored = run_lints(decoded(trace.stored()), [lint])
    assert stored == hits
    assert all(hit.event is not None for hit in hits)
    return [replace(hit, event=None) for hit in hits]


def texts_of(lint: str, trace: Trace) -> list[str]:
    """The sentences of what a lint sees in a trace."""
    return [hit.what for hit in hits_of(lint, trace)]


def ran(folder: Path, text: str) -> Trace:
    """Runs the only scenario of a YAML text, which holds its pipeline too."""
    file = folder / "test.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    (item,) = items_in(str(file))
    return run(Library().prepared(item))


def context_message(
    section: str,
    text: str,
    *,
    role: str = "system",
    agent: str | None = None,
    of: int = 0,
    turn: int = 0,
    pieces: Sequence[tuple[str, str]] = (),
    tokens: int | None = None,
) -> e.InlinePart:
    """A message made for one context; ``pieces`` are (section, text) of a shared one."""
    message = Message(
        role, text, f"m{of}" if of else "", agent=agent, turn=turn, section=section
    )  # fmt: skip
    return e.InlinePart(
        section,
        message,
        chars_over_four(text) if tokens is None else tokens,
        tuple(e.Piece(name, content, chars_over_four(content)) for name, content in pieces),
        of,
    )


def history(
    stream: str,
    numbers: Iterable[int] = (),
    tail: Iterable[int] = (),
    *,
    lo: int = 0,
    section: str = "history",
    **more: Any,
) -> e.HistoryPart:
    """A history part; ``numbers`` is what it adds to the settled messages of its stream."""
    return e.HistoryPart(section, stream, lo, tuple(numbers), (), tuple(tail), **more)


class Story:
    """A trace told step by step: who acts is remembered, numbers count themselves.

    ``turn``, ``start``, ``context`` (or ``call``), ``says``, ``finish`` and ``end`` tell a plain
    turn; each emits the events that a driver would. ``emit`` adds anything else.
    """

    def __init__(
        self,
        agents: Mapping[str, e.AgentFacts] | Sequence[str] = ("a",),
        *,
        channels: Mapping[str, e.ChannelFacts] | None = None,
        **facts: Any,
    ) -> None:
        """Agents by name have the instructions ``I am NAME.``; ``facts`` are PipelineFacts'."""
        self.trace = Trace()
        self.at, self.number, self.session = 0, 0, "s1"
        self.agent = self.run = self.last_call = ""
        self._sessions: set[str] = set()
        self._counts: dict[str, int] = {}
        self._group = ""
        self._reply: Any = None
        self.facts = e.PipelineFacts(
            name="told",
            agents=(
                dict(agents)
                if isinstance(agents, Mapping)
                else {name: e.AgentFacts(f"I am {name}.") for name in agents}
            ),
            channels={"messages": MESSAGES, **(channels or {})},
            conversation="messages",
            **{"observes": ("sections", "state", "runs", "handoffs"), **facts},
        )
        self.emit(e.RunStarted(0, scenario="told", driver="story", pipeline=self.facts))

    def emit(self, event: e.AnyEvent) -> None:
        """Adds any event as it is."""
        self.trace.emit(event)

    def where(self) -> tuple[int, str, int, str, str]:
        """What every event of the acting run begins with."""
        return self.at, self.session, self.number, self.agent, self.run

    def next(self, letter: str) -> int:
        """Counts messages, runs, model calls, handoffs, … from 1."""
        self._counts[letter] = self._counts.get(letter, 0) + 1
        return self._counts[letter]

    # Turns

    def turn(self, text: str = "hello", *, session: str = "s1", agent: str = "") -> int:
        """The user says something, which an agent answers if one is named; returns the number."""
        self.session = session
        if session not in self._sessions:
            self._sessions.add(session)
            self.emit(e.SessionStarted(self.at, session, project="p1"))
        self.number = self.next("turn")
        self.agent = self.run = ""
        number = self._counts.get("m", 0) + 1
        self.emit(e.TurnStarted(self.at, session, self.number, message=number))
        self.message("user", text)
        self.write({"messages": [{"$message": number}]}, cause="user")
        if agent:
            self.start(agent)
        return number

    def end(
        self,
        reply: Any = None,
        *,
        error: e.ErrorFacts | None = None,
        unused: Sequence[e.UnusedLines] = (),
    ) -> None:
        """The pipeline waits for the user again."""
        self.agent = self.run = ""
        self.emit(
            e.TurnFinished(
                *self.where()[:3], reply=reply or self._reply, error=error, unused=tuple(unused)
            )
        )

    def finish_turn(self) -> None:
        """The acting run is over, and with it the turn."""
        self.finish()
        self.end()

    def route(self, *targets: str, parallel: bool = False) -> None:
        """The run that acts names who runs next."""
        self.emit(e.RouteChosen(*self.where(), targets=targets, labels=(), parallel=parallel))

    # Runs

    def start(
        self, agent: str, *, handoff: str = "", source: str = "", group: str = "", given: Any = None
    ) -> str:
        """An agent is activated, and acts from here on; returns the run's id."""
        self.resume(agent, f"r{self.next('r')}", group)
        self.emit(
            e.AgentStarted(
                *self.where(), input=given, handoff=handoff, handoff_from=source, group=group
            )
        )
        return self.run

    def resume(self, agent: str, run_id: str, group: str = "") -> None:
        """Lets another run act from here on."""
        self.last_call = ""
        self.agent, self.run, self._group = agent, run_id, group

    def finish(self, status: str = "done", *, changed: Sequence[str] = (), **writes: Any) -> None:
        """The run ends, after it wrote what is given by channel."""
        if writes:
            self.write(writes)
        self.emit(
            e.AgentFinished(
                *self.where(),
                status=status,
                output=None,
                message=0,
                changed_in_place=tuple(changed),
            )
        )

    def answers(self, agent: str, text: str = "Done.", *parts: e.Part, **context: Any) -> int:
        """One whole run: started, called, answered, written to the conversation."""
        self.start(agent)
        self.call(*parts, **context)
        number = self.says(text)
        self.finish(messages=[{"$message": number}])
        return number

    def write(self, update: Mapping[str, Any], *, cause: str = "writes", **more: Any) -> None:
        """Channels are written, all at once."""
        self.emit(
            e.StateUpdated(
                *self.where(), update=dict(update), cause=cause, group=self._group, **more
            )
        )

    # Contexts and messages

    def instructions(self) -> e.InlinePart:
        """The acting agent's own instructions, as its recipe makes them."""
        return context_message("instructions", f"I am {self.agent}.", agent=self.agent)

    def context(
        self,
        *parts: e.Part,
        base: str = "",
        numbers: Sequence[int] = (),
        tokens: int | None = None,
        agent: str = "",
        **facts: Any,
    ) -> str:
        """A context of the given parts is built; without parts, of the instructions only."""
        call = self.last_call = f"c{self.next('c')}"
        if not parts and not base:
            parts = (self.instructions(),)
        if tokens is None:
            tokens = sum(part.tokens for part in parts if isinstance(part, e.InlinePart))
        at, session, turn, acting, run_id = self.where()
        self.emit(
            e.ContextBuilt(
                at,
                session,
                turn,
                agent or acting,
                run_id,
                call=call,
                parts=tuple(parts),
                base=base,
                said=tuple(numbers),
                tokens=tokens,
                **facts,
            )
        )
        return call

    def call(self, *parts: e.Part, **more: Any) -> str:
        """A context is built and sent."""
        call = self.context(*parts, **more)
        self.emit(e.ModelCalled(*self.where(), call=call))
        return call

    def message(self, role: str, text: str, **more: Any) -> int:
        """A message joins the log; returns its number."""
        number = self.next("m")
        agent = self.agent if role in ("assistant", "tool") else None
        added = Message(role, text, f"m{number}", agent, self.number, **more)
        self.emit(
            e.MessageAdded(*self.where(), message=added, tokens=tokens_of(added, chars_over_four))
        )
        return number

    def says(self, text: str, *calls: ToolCall) -> int:
        """The acting agent says something, in reply to its last call if it made one."""
        number = self.message("assistant", text, calls=calls)
        if self.last_call:
            kind = "calls" if calls else "text"
            self.emit(
                e.ModelReplied(*self.where(), call=self.last_call, message=number, reply=kind)
            )
        self._reply = text
        return number

    def hears(self, call_id: str, text: str) -> int:
        """A tool answers; returns the message's number."""
        return self.message("tool", text, call_id=call_id, tool="tool")

    # Handoffs

    def requests(
        self,
        target: str,
        *,
        type: str = "handoff",
        query: str | None = None,
        payload: Any = None,
        tool_calls: Sequence[ToolCall] = (),
    ) -> dict[str, Any]:
        """The acting agent asks to pass control; returns the handoff's fields."""
        call = f"call{self.next('call')}"
        self.says("", ToolCall(call, f"{HANDOFF_PREFIX}{target}", {"query": query}), *tool_calls)
        fields = {
            "handoff": f"h{self.next('h')}", "from_agent": self.agent, "to_agent": target,
            "type": type, "mode": "transfer", "query": query, "payload": payload,
        }  # fmt: skip
        self.emit(e.HandoffRequested(*self.where(), **fields, call_id=call))
        return fields

    def hands_off(self, target: str, **request: Any) -> str:
        """A handoff is requested and made, and the source ends; returns the handoff's id."""
        fields = self.requests(target, **request)
        self.emit(e.HandoffMade(*self.where(), **fields))
        self.hears(f"call{self._counts['call']}", f"Transferred to {target}.")
        self.finish("handed_off")
        return str(fields["handoff"])

    def passes_to(self, target: str, **request: Any) -> str:
        """A handoff is made, and its target starts; returns the new run's id."""
        source = self.agent
        handoff = self.hands_off(target, **request)
        return self.start(target, handoff=handoff, source=source)
