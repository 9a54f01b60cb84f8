"""One session: its log, what its histories have settled, and its place in time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from simkit.core.messages import Message
from simkit.runtime.blocks import BranchLogs, in_blocks
from simkit.runtime.branch import Branch, BranchLog
from simkit.runtime.context.history import Stream
from simkit.runtime.context.tokens import Counter, tokens_of
from simkit.trace.recorder import EventRecorder, Position
from simkit.trace.reducers import Appended


class Numbers:
    """Counters for ids, one of each for the whole scenario, and what messages are known by them."""

    __slots__ = ("calls", "checkpoints", "groups", "handoffs", "messages", "model_calls", "runs",
                 "sizes", "states")  # fmt: skip

    def __init__(self) -> None:
        self.calls = self.checkpoints = self.groups = self.handoffs = 0
        self.messages = self.model_calls = self.runs = self.states = 0
        self.sizes: dict[str, tuple[int, int]] = {}
        """A logged message's id to its number and its tokens; sessions may share a channel."""

    def counters(self) -> dict[str, int]:
        """Return what a new process must go on counting from."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "sizes"}

    def restore(self, counters: Mapping[str, int]) -> None:
        """Go on from where another process stopped."""
        for name in self.__slots__:
            if name in counters:
                setattr(self, name, counters[name])


class Summary(msgspec.Struct):
    """A rolling summary, and which messages it covers."""

    message: Message
    number: int
    """The newest that it covers."""
    missed: frozenset[int] = frozenset()
    """Older ones that it does not: parallel branches stand one behind the other, and the current
    message stood elsewhere."""

    def covers(self, number: int) -> bool:
        """Hold for the messages that the summary speaks of."""
        return number <= self.number and number not in self.missed


class Conversation:
    """One session's log and histories."""

    __slots__ = (
        "_read",
        "branch_logs",
        "count",
        "first_turn",
        "is_restored",
        "log",
        "name",
        "numbers",
        "project",
        "recorder",
        "sizes",
        "starts",
        "streams",
        "summaries",
        "turn",
        "values",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        project: str,
        values: dict[str, Any],
        numbers: Numbers,
        recorder: EventRecorder,
        count: Counter,
    ) -> None:
        self.name, self.project, self.values = name, project, values
        self.numbers, self.recorder, self.count = numbers, recorder, count
        self.log: list[Message] = []
        """What was said: before the user's last message as it is shown, then as it was said."""
        self.branch_logs = BranchLogs()
        self._read: tuple[tuple[int, int], BranchLog] | None = None
        self.is_restored = False
        """Another process has told what its histories had settled."""
        self.sizes = numbers.sizes
        self.turn = self.first_turn = 0
        """The current turn, and the one in which the user's last message was said."""
        self.starts: dict[str, int] = {}
        """Where what followed the user's last message begins, in the log and in each list that
        histories read."""
        self.streams: dict[tuple[str, str], Stream] = {}
        self.summaries: dict[str, Summary] = {}

    def begin_turn(self, turn: int, sources: Mapping[str, Any]) -> None:
        """Remember where the turn begins: what is before it is settled."""
        if self.branch_logs.paths:
            start = self.starts.get("log", 0)
            self.log[start:] = in_blocks(self.log[start:], self.branch_logs.paths)
        self.branch_logs, self._read = BranchLogs(), None
        self.turn = self.first_turn = turn
        self.starts = {"log": len(self.log)}
        for channel, value in sources.items():
            self.starts[channel] = 0 if value is None else len(value)

    def log_of(self, branch: Branch | None) -> BranchLog:
        """Return the log as a run that starts in a branch, or in none, sees it.

        What the branches of a group said stands branch by branch, in the order of the group.
        """
        log, logs = self.log, self.branch_logs
        if branch is not None:
            return branch.log(logs.in_order(branch.messages, branch.path))
        if not logs.paths:
            return BranchLog(log, len(log), ())
        now = (len(log), logs.ended)
        if self._read is None or self._read[0] != now:
            start = self.starts.get("log", 0)
            own = tuple(logs.in_order(log[start:]))
            self._read = (now, BranchLog(log, start, own))
        return self._read[1]

    def add(
        self,
        role: str,
        content: str,
        *,
        agent: str | None = None,
        run: str = "",
        calls: tuple[Any, ...] = (),
        call_id: str = "",
        tool: str = "",
        data: Any = None,
        branch: Branch | None = None,
    ) -> Message:
        """Add a message to the log; ``branch`` is the one in which it was said."""
        self.numbers.messages = number = self.numbers.messages + 1
        message = Message(role, content, f"m{number}", agent, self.turn, calls, call_id, tool, data)
        tokens = tokens_of(message, self.count)
        self.log.append(message)
        if branch is not None:
            branch.hear(message)
            self.branch_logs.hear(message, run, branch.path)
        self.sizes[message.id] = (number, tokens)
        self.recorder.record_message(
            Position(self.name, self.turn, agent or "", run), message=message, tokens=tokens
        )
        return message

    def stream(self, key: tuple[str, str], source: Any) -> Stream:
        """Return the settled history under a key; a new one if the source was replaced."""
        stream = self.streams.get(key)
        if stream is not None and continues(stream.anchor, source):
            stream.anchor = source
            return stream
        restarts = stream is not None or self.is_restored
        fresh = Stream(f"{self.name}/{key[0]}/{key[1]}", source, restarts)
        self.streams[key] = fresh
        return fresh


def continues(old: Any, new: Any) -> bool:
    """Return whether one list is the other with more behind it."""
    if old is new:
        return True
    return (
        isinstance(old, Appended)
        and isinstance(new, Appended)
        and old.family == new.family
        and old.start == new.start
    )
