"""One session: its log, its settled histories, its current turn, and its parallel branches.

Each branch sees state and log from before the group, and its own additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeAlias

import msgspec

from simkit.core.messages import Message
from simkit.runtime.context.history import Stream
from simkit.runtime.context.rendering import Counter, tokens_of
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


# Parallel branches: each sees state and log from before the group, and its own additions


# The order of the log: the messages of a branch are consecutive


Path: TypeAlias = tuple[tuple[str, int], ...]
"""The parallel branches of a message, from the outside in: a group, and the number of the run
that opened the branch. Runs are numbered in the order of their group."""


class _Block:
    """The messages at one level, with each group at the place of its first message."""

    def __init__(self) -> None:
        self.items: list[Message | dict[int, _Block]] = []
        self.groups: dict[str, dict[int, _Block]] = {}

    def within(self, group: str, opener: int) -> _Block:
        """Return the block of a group's branch; create both if they do not exist."""
        branches = self.groups.get(group)
        if branches is None:
            branches = self.groups[group] = {}
            self.items.append(branches)
        return branches.setdefault(opener, _Block())

    def collect(self, into: list[Message]) -> None:
        """Append the messages in order: a group's branches one after the other."""
        for item in self.items:
            if isinstance(item, Message):
                into.append(item)
                continue
            for opener in sorted(item):
                item[opener].collect(into)


def in_blocks(
    messages: Iterable[Message], paths: Mapping[str, Path], outer: int = 0
) -> list[Message]:
    """Return messages such that those of one branch are consecutive, in the order of its group.

    ``paths`` gives the branches of messages by id; ``outer`` is the number of outermost branches
    that all messages share. Messages in the right order stay as they are.
    """
    top = _Block()
    for message in messages:
        block = top
        for group, opener in paths.get(message.id, ())[outer:]:
            block = block.within(group, opener)
        block.items.append(message)
    ordered: list[Message] = []
    top.collect(ordered)
    return ordered


class BranchLogs(msgspec.Struct, eq=False):
    """The messages of parallel branches since the user's last message, and the unfinished runs."""

    paths: dict[str, Path] = {}
    """The branches of messages, by message id."""
    _speakers: dict[str, str] = {}
    at_work: set[str] = set()
    """Runs in branches that have not ended."""
    ended: int = 0
    """The number of runs that have ended: each changes what others see of the log."""

    def hear(self, message: Message, run: str, path: Path) -> None:
        """Add a message that a run wrote in a branch."""
        self.paths[message.id], self._speakers[message.id] = path, run

    def end(self, run: str) -> None:
        """Record that a run has ended: from now on others see its messages."""
        if run in self.at_work:
            self.at_work.remove(run)
            self.ended += 1

    def in_order(self, messages: Sequence[Message], path: Path = ()) -> list[Message]:
        """Return the messages that a run in the branch ``path`` sees.

        Of other branches it sees ended runs only: a running agent may have called a tool and not
        have its answer yet.
        """
        paths, speakers, at_work = self.paths, self._speakers, self.at_work
        if at_work:
            messages = [
                message
                for message in messages
                if speakers.get(message.id) not in at_work or paths[message.id] == path
            ]
        return in_blocks(messages, paths, len(path))


# One branch: its state and its log


Reduce: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
"""Channel values and an update → the changed values."""


def log_of_branch(log: list[Message] | Appended, size: int, own: Sequence[Message]) -> Appended:
    """Return a log as a run sees it: a prefix of the session's, and the messages of its branch."""
    before = log if isinstance(log, Appended) else Appended(log, 0, size)
    return Appended([*own], head=before) if own else before


class Branch:
    """One branch of a parallel group.

    Its writes are applied when a later run of the branch needs them: most branches have one run,
    which sees none of them.
    """

    def __init__(
        self,
        group: str,
        run: str,
        outer: Branch | None,
        values: Mapping[str, Any],
        log: list[Message] | Appended,
        reduce: Reduce,
    ) -> None:
        """``run`` opened it; ``values`` and ``log`` are those at the beginning of its group."""
        self.group, self.run, self.outer = group, run, outer
        opener = (group, int(run.removeprefix("r")))
        self.path: Path = (opener,) if outer is None else (*outer.path, opener)
        self._values: dict[str, Any] = dict(values)
        self.start_values: Mapping[str, Any] = dict(values) if outer is None else outer.start_values
        """The session's channels when the outermost branch began."""
        self._log, self._base, self._reduce = log, len(log), reduce
        self._pending: list[Mapping[str, Any]] = []
        self.messages: list[Message] = []
        self.replaced: set[str] = set() if outer is None else set(outer.replaced)
        """Channels that the branch did more than append to: there it reads its own value."""

    def values(self) -> Mapping[str, Any]:
        """Return the state that the branch's next run sees."""
        for update in self._pending:
            self._values.update(self._reduce(self._values, update))
        self._pending.clear()
        return self._values

    def log(self, own: Sequence[Message] | None = None) -> Appended:
        """Return the log for a new run of the branch; ``own`` replaces the branch's messages."""
        return log_of_branch(self._log, self._base, self.messages if own is None else own)

    def lineage(self) -> Iterator[Branch]:
        """Yield the branch, and its outer branches, from the inside out."""
        branch: Branch | None = self
        while branch is not None:
            yield branch
            branch = branch.outer

    def note(self, update: Mapping[str, Any], replaced: Set[str]) -> None:
        """Record a write of one of its runs, here and in the outer branches."""
        for branch in self.lineage():
            branch._pending.append(update)
            branch.replaced |= replaced

    def hear(self, message: Message) -> None:
        """Add a message that one of its runs logged."""
        for branch in self.lineage():
            branch.messages.append(message)


def common(branches: Sequence[Branch | None]) -> Branch | None:
    """Return the innermost branch that contains all of these; None if there is none."""
    first, *others = branches
    if first is None or not others:
        return first
    shared = [
        {id(branch) for branch in other.lineage()} if other is not None else set()
        for other in others
    ]
    for branch in first.lineage():
        if all(id(branch) in known for known in shared):
            return branch
    return None
