"""The timeline as a table of fixed width: text wraps, long cells are cut."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from simkit.core.messages import Message, ToolCall, value_said
from simkit.core.text import short, without_secrets_in
from simkit.language.paths import as_text
from simkit.report.wording import TEXTS, Paint, call_text, error_text, moment, plain, value_text
from simkit.trace import events as e
from simkit.trace.views import CallView, InlinePart, View

SAID_MAX: Final = 400
"""The length of an answer in a row; a table shows less."""


FLOWS_WITH_INPUT: Final = ("graph", "supervisor")
"""Flows in which an agent's input is the output before it; in others it is the user's message."""


class Row(msgspec.Struct, frozen=True):
    """One model call; or a user message, given state, or an agent without a model."""

    turn: int
    """The turn, from 1; 0 before the first."""
    at: int
    """The virtual time in milliseconds."""
    agent: str
    """The agent; ``user``, ``given``, or ``error`` for an error of the pipeline."""
    messages: int | None = None
    """The number of messages in the context; None if no model was called."""
    tokens: int | None = None
    dropped: int | None = None
    """The number of messages that history sections dropped; None if no model was called."""
    answered: str = ""
    """Its message, and the results of its tools."""
    handoff: str = ""
    wrote: tuple[str, ...] = ()
    """The channels written after the answer, in order."""
    is_agent: bool = True
    input: str = ""
    """The run's input, in its first row; only in flows from output to input."""


class _Draft:
    """A row that still grows: answers, handoffs and writes come after the call."""

    def __init__(
        self, event: e.Event, agent: str, call: CallView | None = None, detail: str = ""
    ) -> None:
        self.turn, self.at, self.agent, self.call = event.turn, event.at, agent, call
        self.input = detail
        self.answered: list[str] = []
        self.handoffs: list[str] = []
        self.wrote: dict[str, None] = {}
        self.is_agent = bool(event.run)

    def row(self) -> Row:
        """Return the row as it is now."""
        context = self.call.context if self.call else None
        return Row(
            self.turn,
            self.at,
            self.agent,
            len(context.messages) if context else None,
            context.tokens if context else None,
            dropped_count(self.call) if self.call else None,
            short(" ".join(self.answered), SAID_MAX),
            ", ".join(self.handoffs),
            tuple(self.wrote),
            self.is_agent,
            short(self.input, SAID_MAX),
        )


def dropped_count(call: CallView) -> int:
    """Return the number of messages that a call's history sections did not show."""
    count = 0
    for part in call.context.parts:
        if not isinstance(part, InlinePart):
            count += part.cuts_hi + len(part.tail_cuts) + min(part.lo, part.hi + len(part.tail))
    return count


def rows_of(view: View) -> list[Row]:
    """Return the rows of a whole run, in the order of the calls."""
    return _Timeline(view).rows()


class _Timeline:
    def __init__(self, view: View) -> None:
        self._view = view
        self._drafts: list[_Draft] = []
        self._latest: dict[str, _Draft] = {}
        """Agent run to its newest row."""
        self._tools: dict[str, tuple[_Draft, int]] = {}
        """Tool call to the row, and the index in it, for its result."""
        self._many_sessions = len(view.states) > 1
        self._shows_input = view.pipeline.flow in FLOWS_WITH_INPUT

    def rows(self) -> list[Row]:
        """Process every event with the method for its kind, if there is one; return the rows."""
        for event in self._view.events:
            row = _ROWS.get(type(event))
            if row is not None:
                self._add(event, row).answered.append(TEXTS[type(event)](event))
            handler = getattr(self, f"on_{type(event).__name__}", None)
            if handler is not None:
                handler(event)
        return [draft.row() for draft in self._drafts]

    def _add(self, event: e.Event, agent: str, call: CallView | None = None) -> _Draft:
        draft = _Draft(event, agent, call, self._input(event))
        self._drafts.append(draft)
        if event.run:
            self._latest[event.run] = draft
        return draft

    def _input(self, event: e.Event) -> str:
        """Return a run's input, if this is its first row."""
        run = self._view.runs.get(event.run) if event.run not in self._latest else None
        if run is None or not self._shows_input:
            return ""
        return as_text(self._view.resolved(run.input))

    def _of_run(self, event: e.Event) -> _Draft:
        """Return the newest row of the event's run; a run without model calls gets one now."""
        latest = self._latest.get(event.run)
        is_of_turn = latest is not None and latest.turn == event.turn
        return latest if latest is not None and is_of_turn else self._add(event, self._name(event))

    def _name(self, event: e.Event) -> str:
        run = self._view.runs.get(event.run)
        return f"∥ {event.agent}" if run is not None and run.group else event.agent

    def on_TurnStarted(self, event: e.TurnStarted) -> None:
        message = self._view.messages.get(event.message)
        row = self._add(event, f"user ({event.session})" if self._many_sessions else "user")
        if message is not None:
            row.answered.append(message.content)

    def on_ContextBuilt(self, event: e.ContextBuilt) -> None:
        self._add(event, self._name(event), self._view.calls[event.call])

    def on_ModelReplied(self, event: e.ModelReplied) -> None:
        message = self._view.messages.get(event.message)
        if message is not None:
            self._say(self._of_run(event), message)

    def _say(self, row: _Draft, message: Message) -> None:
        value = value_said(message)
        if value is not None:
            row.answered.append(value_text(value))
        elif message.content:
            row.answered.append(message.content)
        for call in message.calls:
            if not call.is_handoff:
                self._tools[call.id] = row, len(row.answered)
                row.answered.append(call_text(call))

    def on_ModelFailed(self, event: e.ModelFailed) -> None:
        # The turn's error, or a later event, says more.
        self._of_run(event).answered.append(event.error)

    def on_CallEdited(self, event: e.CallEdited) -> None:
        draft = _Draft(event, event.by, None, "")
        draft.answered.append(TEXTS[e.CallEdited](event))
        self._drafts.append(draft)

    def on_ToolCalled(self, event: e.ToolCalled) -> None:
        """Show a call that was executed in a later turn in a row of that turn."""
        row = self._tools.get(event.call_id, (None, 0))[0]
        if row is None or row.turn == event.turn:
            return
        row = self._of_run(event)
        self._tools[event.call_id] = row, len(row.answered)
        row.answered.append(call_text(ToolCall(event.call_id, event.tool, event.args)))

    def on_ToolReturned(self, event: e.ToolReturned) -> None:
        self._answer(event.call_id, value_text(event.result))

    def on_ToolFailed(self, event: e.ToolFailed) -> None:
        self._answer(event.call_id, f"failed: {event.error}")

    def _answer(self, call_id: str, text: str) -> None:
        if call_id in self._tools:
            row, index = self._tools[call_id]
            row.answered[index] += f" → {text}"

    def on_HandoffMade(self, event: e.HandoffMade) -> None:
        self._of_run(event).handoffs.append(f"{event.mode} → {event.to_agent}")

    def on_HandoffRejected(self, event: e.HandoffRejected) -> None:
        row = self._of_run(event)
        row.handoffs.append(f"rejected → {event.to_agent}")
        row.answered.append(event.reason)

    def on_StateUpdated(self, event: e.StateUpdated) -> None:
        if event.run:
            row = self._of_run(event)
        elif event.cause == "user" and self._drafts and self._drafts[-1].turn == event.turn:
            row = self._drafts[-1]
        else:
            row = self._add(event, event.cause)
        row.wrote.update(dict.fromkeys(event.update))

    def on_TurnInterrupted(self, event: e.TurnInterrupted) -> None:
        row = self._of_run(event) if event.run else self._add(event, "interrupt")
        # The model's message is the question, which is shown once.
        row.answered = [text for text in row.answered if text != as_text(event.question)]
        row.answered.append(f"asks the user: {as_text(event.question)}")

    def on_TurnResumed(self, event: e.TurnResumed) -> None:
        if self._drafts and self._drafts[-1].turn == event.turn:
            self._drafts[-1].answered.append(as_text(event.value))

    def on_AgentFinished(self, event: e.AgentFinished) -> None:
        row = self._of_run(event)
        if row.call is None:
            row.answered.append(as_text(self._view.resolved(event.output)))
        if event.status not in ("done", "handed_off", "interrupted"):
            row.answered.append(f"({event.status.replace('_', ' ')})")

    def on_TurnFinished(self, event: e.TurnFinished) -> None:
        if event.error is not None:
            row = self._add(event, "error")
            row.answered.append(error_text(event.error))


_ROWS: Final[Mapping[type, str]] = {
    e.LimitReached: "limit",
    e.GuardrailTripped: "guardrail",
    e.FaultInjected: "fault",
    e.ErrorLost: "error",
    e.JudgeAnswered: "judge",
    e.UncontrolledEffect: "uncontrolled",
}
"""Events with a row of their own, and the word in the column of agents."""


def selected(rows: Sequence[Row], turn: int | None = None, agent: str = "") -> list[Row]:
    """Return the rows of one turn, of one agent, or both; the user's rows stay with the agent's."""
    chosen = [row for row in rows if turn is None or row.turn == turn]
    if not agent:
        return chosen
    turns = {row.turn for row in chosen if row.agent.removeprefix("∥ ") == agent}
    return [
        row
        for row in chosen
        if row.agent.removeprefix("∥ ") == agent or (row.turn in turns and not row.is_agent)
    ]


TABLE_WIDTH: Final = 120
SAID_LEAST: Final = 20
"""The width that the first wrapped column gets, if it needs it, before others get more than
their longest word."""
CELL_LINES_MAX: Final = 3
ANSWER_LEAST: Final = 32
"""On a narrow terminal, rows are stacked if answers would get fewer columns than this."""
NAME_MAX: Final = 20
"""The most characters of an agent's name beside a stacked row."""


def table(
    rows: Sequence[Row], width: int = TABLE_WIDTH, actor: str = "agent", paint: Paint = plain
) -> list[str]:
    """Return the rows as lines of a table; handoffs and inputs only if there are any.

    ``actor`` is the header of the column of agents. If lines are too narrow for a table, the cells
    of a row are below each other.
    """
    if not rows:
        return []
    columns = _columns(rows)
    heads = ["turn", "time", actor, "sent", "tokens", "dropped"]
    fixed = [_fixed_cells(rows, index) for index in range(len(rows))]
    free = width - sum(
        _widest([head, *cells]) + 2 for head, *cells in zip(heads, *fixed, strict=True)
    )
    widths = _shared_out(free, list(columns.values()), list(columns))
    if width < TABLE_WIDTH and _is_squeezed(columns, widths, free):
        return list(_stacked(rows, width, paint))
    flexible = zip(*columns.values(), strict=True)
    cells = [[*fixed[index], *map(_cell, texts, widths)] for index, texts in enumerate(flexible)]
    return _laid_out([*heads, *columns], cells)


def _is_squeezed(columns: Mapping[str, Sequence[str]], widths: Sequence[int], free: int) -> bool:
    """Return whether these widths break words, squeeze answers, or take more than is free."""
    words = [_widest([head, *" ".join(cells).split()]) for head, cells in columns.items()]
    answers = next(iter(columns.values()))
    least = min(max(map(len, answers)), ANSWER_LEAST)
    if sum(widths) + 2 * (len(widths) - 1) > free:
        return True
    return widths[0] < least or any(map(int.__gt__, words, widths))


def _columns(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Return the columns that may wrap, by their headers."""
    inputs, answers = [row.input for row in rows], [row.answered for row in rows]
    handoffs, wrote = [row.handoff for row in rows], [", ".join(row.wrote) for row in rows]
    columns = {"input": inputs, "output": answers} if any(inputs) else {"answered": answers}
    if any(handoffs):
        columns["handoff"] = handoffs
    return {**columns, "state written": wrote}


def _stacked(rows: Sequence[Row], width: int, paint: Paint) -> Iterator[str]:
    """Yield each turn, and in it each row: the text beside its agent, the numbers below."""
    lead = max(min(max(len(row.agent) for row in rows), NAME_MAX), 4) + 4
    turn = 0
    for row in rows:
        if row.turn != turn:
            turn = row.turn
            yield paint(f"turn {turn}", "strong")
        texts = [row.answered, row.handoff]
        if row.input:
            texts = [f"input: {row.input}", *texts]
        lines = [
            line for text in texts if text for line in _cell(text, width - lead).split("\n")
        ]  # fmt: skip
        first, *rest = lines or [""]
        yield f"  {short(row.agent, lead - 4):<{lead - 2}}{first}".rstrip()
        yield from (" " * lead + line for line in rest)
        for line in textwrap.wrap(_counts(row), width - lead):
            yield " " * lead + paint(line, "quiet")


def _counts(row: Row) -> str:
    """Return ``sent 4, tokens 35, dropped 1, wrote messages, at 1500 ms``, as far as known."""
    counts = {"sent": row.messages, "tokens": row.tokens, "dropped": row.dropped}
    parts = [f"{name} {count}" for name, count in counts.items() if count is not None]
    parts += [f"wrote {', '.join(row.wrote)}"] if row.wrote else []
    parts += [f"at {moment(row.at)}"] if row.at else []
    return ", ".join(parts)


_RIGHT: Final = (0, 1, 3, 4, 5)
"""The columns of numbers, which are aligned to the right."""


def _laid_out(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table. Its plain form needs no library, which takes long to import."""
    columns = zip(headers, *cells, strict=True)
    widths = [_widest(line for cell in column for line in cell.split("\n")) for column in columns]
    rows = [headers, ["-" * width for width in widths], *cells]
    return [line for row in rows for line in _lines_of(row, widths)]


def _lines_of(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yield the lines of a row, of which each cell may have several."""
    for parts in zip_longest(*(cell.split("\n") for cell in row), fillvalue=""):
        padded = [
            part.rjust(width) if index in _RIGHT else part.ljust(width)
            for index, (part, width) in enumerate(zip(parts, widths, strict=True))
        ]
        yield "  ".join(padded).rstrip()


def _widest(texts: Iterable[str]) -> int:
    return max(map(len, texts))


def _fixed_cells(rows: Sequence[Row], index: int) -> list[str]:
    row = rows[index]
    is_first = index == 0 or rows[index - 1].turn != row.turn
    numbers = ["" if n is None else str(n) for n in (row.messages, row.tokens, row.dropped)]
    turn = str(row.turn) if row.turn and is_first else ""
    return [turn, moment(row.at), short(row.agent, 24), *numbers]


def _shared_out(free: int, columns: Sequence[list[str]], headers: Sequence[str]) -> list[int]:
    """Divide the remaining width of a line; the first column gets what the others leave."""
    needed = [_widest([head, *cells]) for head, cells in zip(headers, columns, strict=True)]
    free -= 2 * (len(columns) - 1)
    if sum(needed) <= free:
        return needed
    # Words stay whole unless one needs more than a fair share.
    fair = max(free // len(columns), 13)
    least = [
        min(_widest([head, *(word for cell in cells for word in cell.split())]), fair)
        for head, cells in zip(headers, columns, strict=True)
    ]
    widths = [min(needed[0], max(SAID_LEAST, least[0]), fair), *least[1:]]
    for index in range(1, len(widths)):
        spare = max(free - sum(widths), 0)
        share = spare if index < len(widths) - 1 else spare // 3
        widths[index] = min(needed[index], widths[index] + share)
    widths[0] = min(needed[0], max(widths[0], free - sum(widths[1:])))
    return widths


def _cell(text: str, width: int) -> str:
    lines = textwrap.wrap(text, width, break_on_hyphens=False)
    if len(lines) > CELL_LINES_MAX:
        lines = textwrap.wrap(without_secrets_in(text), width, break_on_hyphens=False)
    if len(lines) > CELL_LINES_MAX:
        last = lines[CELL_LINES_MAX - 1]
        lines[CELL_LINES_MAX - 1 :] = [last[: width - 1].rstrip() + "…"]
    return "\n".join(lines)
