"""One session: its log, its settled histories, and its current turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.core.messages import Message
from simkit.runtime.branch import Branch, BranchLogs, in_blocks, log_of_branch
from simkit.runtime.context.history import Stream
from simkit.runtime.context.tokens import Counter, tokens_of
from simkit.trace.recorder import EventRecorder, Position
from simkit.trace.reducers import Appended


class Numbers:
    """The counters of ids for the whole scenario, and the numbers and sizes of messages."""

    def __init__(self) -> None:
        self.calls = self.checkpoints = self.groups = self.handoffs = 0
        self.messages = self.model_calls = self.runs = self.states = 0
        self.sizes: dict[str, tuple[int, int]] = {}
        """A logged message's id to its number and its tokens; sessions may share a channel."""

    def counters(self) -> dict[str, int]:
        """Return the counters that a new process must continue."""
        return {name: count for name, count in vars(self).items() if name != "sizes"}

    def restore(self, counters: Mapping[str, int]) -> None:
        """Continue the counters of another process."""
        for name in self.counters():
            if name in counters:
                setattr(self, name, counters[name])


class Summary(msgspec.Struct):
    """A rolling summary, and the messages that it covers."""

    message: Message
    number: int
    """The newest message that it covers."""
    missed: frozenset[int] = frozenset()
    """Older messages that it does not cover: parallel branches come one after the other, and the
    current message was shown elsewhere."""

    def covers(self, number: int) -> bool:
        """Return whether the summary covers a message."""
        return number <= self.number and number not in self.missed


class Conversation:
    """One session's log and histories."""

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
        """The messages: those before the user's last one as they are shown, then in the order of
        time."""
        self.branch_logs = BranchLogs()
        self._read: tuple[tuple[int, int], Appended] | None = None
        self.is_restored = False
        """Whether another process has reported the settled histories."""
        self.sizes = numbers.sizes
        self.turn = self.first_turn = 0
        """The current turn, and the turn of the user's last message."""
        self.starts: dict[str, int] = {}
        """The index at which the messages after the user's last one begin, in the log and in
        each list that histories read."""
        self.streams: dict[tuple[str, str], Stream] = {}
        self.summaries: dict[str, Summary] = {}

    def begin_turn(self, turn: int, channels: Sequence[str]) -> None:
        """Record where the turn begins: everything before, in the log and in channels of messages,
        is settled.
        """
        logs = self.branch_logs
        if logs.paths:
            start = self.starts.get("log", 0)
            self.log[start:] = in_blocks(self.log[start:], logs.paths)
        if logs.paths or logs.at_work or logs.ended:
            self.branch_logs = BranchLogs()
        self._read = None
        self.turn = self.first_turn = turn
        self.starts = starts = {"log": len(self.log)}
        values = self.values
        for channel in channels:
            value = values.get(channel)
            starts[channel] = 0 if value is None else len(value)

    def log_of(self, branch: Branch | None) -> Appended:
        """Return the log for a run that starts in a branch, or in none.

        The messages of a group's branches come branch by branch, in the order of the group.
        """
        log, logs = self.log, self.branch_logs
        if branch is not None:
            return branch.log(logs.in_order(branch.messages, branch.path))
        if not logs.paths:
            return log_of_branch(log, len(log), ())
        now = (len(log), logs.ended)
        if self._read is None or self._read[0] != now:
            start = self.starts.get("log", 0)
            own = logs.in_order(log[start:])
            self._read = (now, log_of_branch(log, start, own))
        return self._read[1]

    def stream(self, owner: str, section: str, anchor: Any) -> Stream:
        """Return the settled history of an agent's section; ``anchor`` is what it is read from.

        The history under this name goes on, unless its source was replaced.
        """
        name, streams = (owner, section), self.streams
        stream = streams.get(name)
        if stream is None or not continues(stream.anchor, anchor):
            restarts = stream is not None or self.is_restored
            identity = f"{self.name}/{owner}/{section}"
            stream = streams[name] = Stream(identity, anchor, restarts)
        stream.anchor = anchor
        return stream

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
        """Add a message to the log; ``branch`` is the branch of the run that wrote it."""
        numbers, turn = self.numbers, self.turn
        numbers.messages = number = numbers.messages + 1
        identity = f"m{number}"
        message = Message(role, content, identity, agent, turn, calls, call_id, tool, data)
        tokens = tokens_of(message, self.count)
        self.log.append(message)
        if branch is not None:
            branch.hear(message)
            self.branch_logs.hear(message, run, branch.path)
        self.sizes[identity] = (number, tokens)
        position = Position(self.name, turn, agent or "", run)
        self.recorder.record_message(position, message=message, tokens=tokens)
        return message


def continues(old: Any, new: Any) -> bool:
    """Return whether the new list is the old one with items appended."""
    return old is new or (type(new) is Appended and new.continues(old))
