"""Blocks: the order of the log with parallel agents; the messages of a branch are consecutive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from simkit.core.messages import Message

Path: TypeAlias = tuple[tuple[str, int], ...]
"""The parallel branches of a message, from the outside in: a group, and the number of the run
that opened the branch. Runs are numbered in the order of their group."""


class _Block:
    """The messages at one level, with each group at the place of its first message."""

    __slots__ = ("groups", "items")

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
