"""A story: a scenario told step by step, and judged claim by claim."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from simkit.bdd.places import Lines, Places
from simkit.errors import SourceError
from simkit.expect.judge import Judgement, judge
from simkit.runtime.functions import function_named
from simkit.scenario.files import Library
from simkit.scenario.items import PIPELINE_SUFFIX, Item
from simkit.session import run
from simkit.source import near
from simkit.trace import Trace

TURN: Final = 2
"""How many keys of a path name the turn: ``turns`` and its place."""


class Story:
    """One scenario of a feature, as the values that a scenario file would hold.

    Steps that tell what is given, said and answered add to the values; a step that claims
    something adds its claim and has the run so far judged. The run is made at the first claim
    after something was told, and kept until something more is.
    """

    def __init__(
        self, library: Library, *, root: Path, folders: Sequence[Path], seed: int | None = None
    ) -> None:
        self._library, self._root, self._folders, self._seed = library, root, folders, seed
        self._places = Places("", "", (1, 1))
        self._values: dict[str, Any] = {"version": 1}
        self._agents: dict[str, str] = {}
        self._coming: list[tuple[str, Any, Lines]] = []
        self._results: dict[str, tuple[Any, Lines]] = {}
        self._trace: Trace | None = None
        self.lines: Lines = (1, 1)
        """The lines of the step that is being told."""

    def begin(self, places: Places, name: str) -> None:
        """The story is the scenario of this name, and its steps stand in these places."""
        self._places = places
        self._values["scenario"] = name

    @property
    def has_begun(self) -> bool:
        """Whether it is known which scenario this is."""
        return "scenario" in self._values

    @property
    def values(self) -> dict[str, Any]:
        """The scenario as far as it is told."""
        return self._values

    # what is given

    def pipeline(self, name: str) -> None:
        """The story is about the pipeline of this file, or of the file ``<name>.pipeline.yaml``."""
        file = self._pipeline_file(name)
        folder = os.path.dirname(self._places.file) or os.curdir
        self._put(("pipeline",), os.path.relpath(file, folder))
        pipelines = [
            document
            for document in self._library.documents(file)
            if isinstance(document.data, dict) and "agents" in document.data
        ]
        for document in pipelines:
            for agent in self._library.pipeline(document).agents:
                self._agents[_spelled(agent)] = agent

    def seed(self, seed: int) -> None:
        """All chance comes from this number."""
        self._put(("seed",), seed)

    def state(self, channel: str, value: Any) -> None:
        """A channel holds this value before the first turn."""
        self._put(("given", "state", channel), value)

    # what happens

    def say(self, text: str) -> None:
        """The user says something: a new turn."""
        turns = self._values.setdefault("turns", [])
        path = ("turns", len(turns))
        turns.append({"user": text})
        self._places.say((*path, "user"), self.lines, below=1)
        self._told()
        coming, self._coming = self._coming, []
        for agent, line, lines in coming:
            self._reply(agent, line, lines)
        for tool, (value, lines) in self._results.items():
            self._result(tool, value, lines)

    def reply(self, agent: str, line: Any, *, coming: bool = False) -> None:
        """An agent's model answers with this line: now, or when the user speaks next."""
        if coming:
            self._coming.append((agent, line, self.lines))
        else:
            self._reply(agent, line, self.lines)

    def result(self, tool: str, value: Any, *, coming: bool = False) -> None:
        """A tool answers this: now, or in every turn to come."""
        if coming:
            self._results[tool] = (value, self.lines)
        else:
            self._result(tool, value, self.lines)

    # what must be so

    def claim(self, path: Sequence[str], matcher: Any) -> Judgement:
        """Claims this of the turn, and returns what does not hold now."""
        at, place, key = self._claimed(path)
        place[key] = {"$all": [place[key], matcher]} if key in place else matcher
        self._places.say(at, self.lines, below=TURN)
        return self.judgement()

    def claim_also(self, path: Sequence[str], matcher: Any, operator: str = "") -> Judgement:
        """Claims one more of a list, or of a list under an operator; returns what does not hold."""
        at, place, key = self._claimed((*path, operator) if operator else path)
        matchers = place.setdefault(key, [])
        self._places.say((*at, len(matchers)), self.lines, below=TURN)
        matchers.append(matcher)
        return self.judgement()

    def judgement(self) -> Judgement:
        """Runs what was told, if that was not done yet, and judges it."""
        if not self._values.get("turns"):
            raise self.error("the user has said nothing yet, so there is nothing to judge")
        document = self._places.document(self._values)
        item = Item(document.file, self._values["scenario"], 0, document.line(()))
        prepared = self._library.assembled(item, document)
        if self._trace is None:
            self._trace = run(prepared, seed=self._seed)
        return judge(prepared.scenario, prepared.document, self._trace, function_named)

    def agent(self, said: str) -> str:
        """Returns the agent's name: ``workout coach`` is ``workout_coach`` if there is one."""
        return self._agents.get(_spelled(said), said)

    def _claimed(self, path: Sequence[str]) -> tuple[tuple[str | int, ...], dict[str, Any], str]:
        turns = self._values.get("turns")
        if not turns:
            raise self.error("the user has said nothing yet, so there is nothing to judge")
        *above, key = ("expect", *path)
        place = turns[-1]
        for step in above:
            place = place.setdefault(step, {})
        return ("turns", len(turns) - 1, *above, key), place, key

    def _reply(self, agent: str, line: Any, lines: Lines) -> None:
        path, turn = self._turn()
        replies = turn.setdefault("replies", {}).setdefault(self.agent(agent), [])
        self._places.say((*path, "replies", self.agent(agent), len(replies)), lines, below=TURN)
        replies.append(line)
        self._told()

    def _result(self, tool: str, value: Any, lines: Lines) -> None:
        path, turn = self._turn()
        turn.setdefault("tool_results", {})[tool] = value
        self._places.say((*path, "tool_results", tool), lines, below=TURN)
        self._told()

    def _turn(self) -> tuple[tuple[str | int, ...], dict[str, Any]]:
        turns = self._values.get("turns")
        if not turns:
            raise self.error("the user has said nothing yet that this could answer")
        return ("turns", len(turns) - 1), turns[-1]

    def _put(self, path: Sequence[str], value: Any) -> None:
        *above, key = path
        place = self._values
        for step in above:
            place = place.setdefault(step, {})
        place[key] = value
        self._places.say(tuple(path), self.lines, below=0)
        self._told()

    def _told(self) -> None:
        self._trace = None

    def _pipeline_file(self, name: str) -> str:
        beside = Path(self._places.file).parent
        if name.endswith(PIPELINE_SUFFIX):
            found = [place / name for place in (beside, self._root) if (place / name).is_file()][:1]
        else:
            found = self._pipelines(f"{name}{PIPELINE_SUFFIX}")
        if len(found) > 1:
            files = ", ".join(os.path.relpath(file) for file in found)
            raise self.error(
                f"there are {len(found)} pipelines `{name}`: {files}", "Name the file."
            )
        if not found:
            near_by = self._pipelines(f"*{PIPELINE_SUFFIX}")
            known = tuple(sorted({file.name.removesuffix(PIPELINE_SUFFIX) for file in near_by}))
            what = f"there is no pipeline `{name}` beside this file or in the folders of tests"
            raise SourceError(self._where(), what, near=near(name, known), known=known)
        return os.path.relpath(found[0])

    def _pipelines(self, pattern: str) -> list[Path]:
        folders = [Path(self._places.file).parent, *self._folders]
        files = {file.resolve(): file for folder in folders for file in folder.rglob(pattern)}
        return sorted(files.values())

    def error(self, what: str, advice: str = "") -> SourceError:
        """Returns the error that says what is wrong with the step that is being told."""
        return SourceError(self._where(), what, advice=advice)

    def _where(self) -> str:
        return self._places.position(self.lines[0])


def _spelled(name: str) -> str:
    """Returns the letters and digits of a name: by them a spoken name is recognised."""
    return "".join(letter for letter in name.lower() if letter.isalnum())
