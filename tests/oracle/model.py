"""What a declared pipeline does, told a second time, from the documents alone.

Nothing of simkit's is imported here: pipelines and scenarios are the plain mappings that a YAML
file says. Where the documents leave the words of a message open, an ``Open`` stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from tests.oracle.flows import Flows
from tests.oracle.values import (
    EMPTY,
    Branch,
    Entry,
    Group,
    Question,
    Turn,
    TurnEnds,
    Waiting,
    Work,
    as_text,
    flat,
    joined,
)  # fmt: skip


class Model(Flows):
    """A pipeline at work on a scenario."""

    def __init__(
        self, pipeline: Mapping[str, Any], scenario: Mapping[str, Any], script: Any = None
    ) -> None:
        """``script`` writes each line into the scenario when it is asked for."""
        self.pipeline, self.scenario, self.script = pipeline, scenario, script
        self.channels: Mapping[str, Any] = pipeline["channels"]
        self.conversation = pipeline.get("conversation", "messages")
        self.stores: dict[tuple[str, str], dict[str, Any]] = {}
        self.logs: dict[str, list[Any]] = {}
        self.waiting: dict[str, Waiting] = {}
        self.flow, self.plan = next(iter(pipeline["flow"].items()))
        self.clock, self.order = 0, count()
        self.committed: set[Entry] = set()
        """What has ever been in a conversation."""
        self.summaries: dict[Any, tuple[str, set[Entry]]] = {}

    def play(self) -> list[Turn]:
        """Returns all turns, as far as the scenario gets."""
        turns = []
        for spec in self.scenario["turns"]:
            turns.append(self.take(spec))
            if turns[-1].error and "error" not in spec.get("expect", {}):
                break
        return turns

    # State

    def begin(self, name: str) -> Any:
        """Returns what a channel begins as."""
        channel = self.channels[name]
        given = self.scenario.get("given", {}).get("state", {})
        scope, first = channel.get("scope"), self.scenario["turns"][0].get("project", "p1")
        if (scope == "turn" and self.is_known) or (scope == "project" and self.project != first):
            given = {}
        reducer = channel.get("reducer", "replace")
        kind = reducer if isinstance(reducer, str) else next(iter(reducer))
        value = given.get(name, channel.get("default", EMPTY.get(kind)))
        if name == self.conversation:
            value = [Entry(*next(iter(item.items()))) for item in value]
        return deepcopy(value)

    def shelf(self, name: str) -> dict[str, Any]:
        """Returns where a channel's value is kept."""
        scope = self.channels[name].get("scope", "session")
        owner = {
            "turn": self.session, "session": self.session, "project": self.project, "global": "",
        }[scope]  # fmt: skip
        return self.stores.setdefault((scope, owner), {})

    def state(self, only: Iterable[str] | None = None) -> dict[str, Any]:
        """Returns what a run sees of the channels."""
        data = {}
        for name, channel in self.channels.items():
            if channel.get("scope") == "agent_run" or (only is not None and name not in only):
                continue
            shelf = self.shelf(name)
            data[name] = shelf.setdefault(name, self.begin(name))
        return data

    def state_seen_by(self, branch: Branch | None) -> dict[str, Any]:
        """Returns what a run of a branch sees of the channels."""
        return dict(branch.state) if branch else self.state()

    def log_of(self, branch: Branch | None) -> list[Entry]:
        """Returns what a run of a branch sees of the log."""
        return branch.log if branch else list(flat(self.log, None))

    def write(self, update: Mapping[str, Any], branch: Branch | None = None) -> None:
        """Joins an update with the channels, as its branch sees them too."""
        for name, value in update.items():
            channel = self.channels[name]
            if channel.get("scope") == "agent_run":
                continue
            reducer = channel.get("reducer", "replace")
            shelf = self.shelf(name)
            now = shelf.setdefault(name, self.begin(name))
            shelf[name] = joined(reducer, now, value)
            if name == self.conversation:
                self.committed |= set(shelf[name])
            around = branch
            while around is not None:
                around.state[name] = joined(reducer, around.state[name], value)
                around = around.outer

    # A turn

    def take(self, spec: dict[str, Any]) -> Turn:
        """Plays one turn."""
        self.spec, self.turn = spec, Turn()
        self.session, self.project = spec.get("session", "s1"), spec.get("project", "p1")
        self.is_known = self.session in self.logs
        self.lines = {
            agent: list(lines) if isinstance(lines, list) else [lines]
            for agent, lines in spec.get("replies", {}).items()
        }
        self.asked_for: dict[str, int] = {}
        self.used: dict[str, int] = {}
        waiting = self.waiting.pop(self.session, None)
        if "resume" in spec:
            assert waiting is not None
            self.log = self.logs[self.session]
            self.user, self.question = waiting.user, waiting.question
            self.drive(waiting.work, spec["resume"])
        else:
            self.hear_anew(spec["user"])
            self.drive(getattr(self, f"_{self.flow}")(), None)
        self.turn.state = dict(self.state())
        return self.turn

    def hear_anew(self, user: Any) -> None:
        """Begins a turn with what the user says."""
        self.stores.pop(("turn", self.session), None)
        self.log = self.logs.setdefault(self.session, [])
        end_all(self.log)
        if not self.is_known:
            self.log += self.talk
            self.committed |= set(self.log)
        self.user = user["json"] if isinstance(user, Mapping) else user
        self.question = Entry("user", as_text(self.user))
        self.log.append(self.question)
        self.write({self.conversation: [self.question]})

    def drive(self, work: Work, answer: Any) -> None:
        """Does a turn's work until it is done, or waits for the user."""
        try:
            while True:
                step = work.send(answer)
                if isinstance(step, Question):
                    self.waiting[self.session] = Waiting(work, self.user, self.question)
                    self.turn.interrupt, self.turn.reply = step.question, None
                    return
                self.clock, answer = self.clock + step, None
        except StopIteration:
            return
        except TurnEnds as stop:
            for run in self.turn.runs:
                run.is_over = True
            self.turn.error = stop.error
            self.turn.reply = None if stop.error else self.turn.reply


def end_all(log: list[Entry | Group]) -> None:
    """Ends the runs of a log: with a new message, those that still waited for the user."""
    for entry in log:
        if isinstance(entry, Entry):
            if entry.run is not None:
                entry.run.is_over = True
            continue
        for branch in entry.branches:
            end_all(branch.entries)
