"""The log's order where agents worked in parallel: what a branch said stands together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from simkit.core.messages import Message

Path: TypeAlias = tuple[tuple[str, int], ...]
"""The parallel branches in which something was said, from the outside in: a group, and the number
of the run that opened the branch. Runs are numbered in the order of their group."""


class _Block:
    """What was said at one level: messages, and groups where the first of each was said."""

    __slots__ = ("groups", "items")

    def __init__(self) -> None:
        self.items: list[Message | dict[int, _Block]] = []
        self.groups: dict[str, dict[int, _Block]] = {}

    def within(self, group: str, opener: int) -> _Block:
        """Return the block of a group's branch; both begin here if they have not yet."""
        branches = self.groups.get(group)
        if branches is None:
            branches = self.groups[group] = {}
            self.items.append(branches)
        return branches.setdefault(opener, _Block())

    def collect(self, into: list[Message]) -> None:
        """Add the messages in their order: a group's branches one after the other."""
        for item in self.items:
            if isinstance(item, Message):
                into.append(item)
                continue
            for opener in sorted(item):
                item[opener].collect(into)


def in_blocks(
    messages: Iterable[Message], paths: Mapping[str, Path], outer: int = 0
) -> list[Message]:
    """Return messages such that those of one branch stand together, in the order of its group.

    ``paths`` tells the branches of messages by their ids; ``outer`` is how many of the outermost
    ones the messages share. What stands so already stays as it is.
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


class BranchLogs:
    """What parallel branches have said since the user's last message, and who is still at work."""

    __slots__ = ("_speakers", "at_work", "ended", "paths")

    def __init__(self) -> None:
        self.paths: dict[str, Path] = {}
        """Messages that were said in branches, by their ids."""
        self._speakers: dict[str, str] = {}
        self.at_work: set[str] = set()
        """Runs in branches that have not ended."""
        self.ended = 0
        """How many have: what others see of the log changes with it."""

    def hear(self, message: Message, run: str, path: Path) -> None:
        """Take a message that a run said in a branch."""
        self.paths[message.id], self._speakers[message.id] = path, run

    def end(self, run: str) -> None:
        """Record that a run has ended: from now on others see what it said."""
        if run in self.at_work:
            self.at_work.remove(run)
            self.ended += 1

    def in_order(self, messages: Sequence[Message], path: Path = ()) -> list[Message]:
        """Return what a run in the branch of ``path`` sees: of runs in others, what has ended.

        A run at work may have asked for a tool and not have its answer yet.
        """
        paths, speakers, at_work = self.paths, self._speakers, self.at_work
        if at_work:
            messages = [
                message
                for message in messages
                if speakers.get(message.id) not in at_work or paths[message.id] == path
            ]
        return in_blocks(messages, paths, len(path))
