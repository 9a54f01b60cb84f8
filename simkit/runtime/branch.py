"""Parallel branches: each sees state and log from before the group, and its own additions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeAlias

from simkit.core.messages import Message
from simkit.runtime.blocks import Path

Reduce: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]
"""Channel values and an update → the changed values."""


class BranchLog(Sequence[Message]):
    """A log as a run sees it: a prefix of the session's, and the messages of its branch."""

    __slots__ = ("_base", "_own", "_size")

    def __init__(self, base: Sequence[Message], size: int, own: Sequence[Message]) -> None:
        self._base, self._size, self._own = base, size, own

    def __len__(self) -> int:
        return self._size + len(self._own)

    def __getitem__(self, index: Any) -> Any:
        size = self._size
        if type(index) is slice:
            if not self._own:
                if index.stop is None and index.step is None and (index.start or 0) >= 0:
                    return self._base[index.start : size]
                start, stop, step = index.indices(size)
                return self._base[start:stop:step]
            start, stop, step = index.indices(len(self))
            if step == 1:
                before = self._base[start : min(stop, size)] if start < size else []
                return [*before, *self._own[max(0, start - size) : max(0, stop - size)]]
            return [self[place] for place in range(start, stop, step)]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self._base[index] if index < size else self._own[index - size]

    def __iter__(self) -> Iterator[Message]:
        return (self[place] for place in range(len(self)))


class Branch:
    """One branch of a parallel group.

    Its writes are applied when a later run of the branch needs them: most branches have one run,
    which sees none of them.
    """

    __slots__ = (
        "_base",
        "_log",
        "_pending",
        "_reduce",
        "_values",
        "group",
        "messages",
        "outer",
        "path",
        "replaced",
        "run",
        "start_values",
    )  # fmt: skip

    def __init__(
        self,
        group: str,
        run: str,
        outer: Branch | None,
        values: Mapping[str, Any],
        log: Sequence[Message],
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

    def log(self, own: Sequence[Message] | None = None) -> BranchLog:
        """Return the log for a new run of the branch; ``own`` replaces the branch's messages."""
        return BranchLog(self._log, self._base, tuple(self.messages if own is None else own))

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
