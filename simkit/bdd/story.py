"""Stories: a scenario built step by step, and checked claim by claim."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from simkit.bdd import assembling
from simkit.bdd.cells import Names, Table, names_of
from simkit.bdd.conditions import Below
from simkit.bdd.phrases import LEFT_OUT, fill
from simkit.checks.judge import Judgement, Outcome
from simkit.core.errors import SourceError
from simkit.language.yaml import load_text, near
from simkit.session.simulate import simulate
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.scenario.code_names import as_imported
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX
from simkit.trace.views import View

if TYPE_CHECKING:
    from simkit.bdd.exploring import Explored

_OF_EXPLORED: Final = "speaks of conversations that are explored"
_EXPLORE_FIRST: Final = "Write `When users say anything, whatever the models do` first."


class _Answer(NamedTuple):
    """An answer of a model or a tool in a turn."""

    path: tuple[str, ...]
    """The answer's path below the turn."""
    value: Any
    lines: assembling.Lines


_STEP_KEYS: Final = (
    *("version", "scenario", "pipeline", "turns", "expect", "examples"),
    *("user", "resume", "replies", "session", "project", "restart", "pause"),
)
"""Keys that only steps may set: later steps read them."""


class Ending(NamedTuple):
    """The end of a story: its findings, and its run, if it is not explored."""

    judgement: Judgement
    prepared: Prepared | None = None
    outcome: Outcome | None = None


class Story:
    """One scenario of a feature, as the values of a scenario file.

    Steps add to the values and to the claims. At its end the story is run once, and all claims are
    checked.
    """

    def __init__(
        self, library: Library, *, root: Path, folders: Sequence[Path], seed: int | None = None
    ) -> None:
        self._library, self._root, self._folders, self._seed = library, root, folders, seed
        self._places = assembling.Places(assembling.FeatureText("", ""), (1, 1))
        self.values: dict[str, Any] = {"version": 1}
        """The scenario so far, without its claims."""
        self._names = Names()
        self._claims = assembling.Claims()
        self._coming: list[_Answer] = []
        """Answers to the user's next message."""
        self._standing: dict[str, list[_Answer]] = {}
        """The answers of each tool in every later turn."""
        self._stood: list[set[str]] = []
        """For each turn, the tools with results for every later turn."""
        self._restart: assembling.Lines | None = None
        self._pause: tuple[str, assembling.Lines] | None = None
        self._explored: Explored | None = None
        """The conversations of a story that is explored; None if it says what happens."""
        self._times = 1
        """The number of turns of the user's last message."""
        self.lines: assembling.Lines = (1, 1)
        """The lines of the current step."""
        self.text: str | None = None
        """The text below the current step; None if there is none."""
        self.table: Table | None = None
        """The table below the current step; None if there is none."""
        self.last_turn: int | None = None
        """The turn of the current step, by index; WHOLE; None is the last one."""

    def begin(self, places: assembling.Places, name: str) -> None:
        """Begin the scenario of this name, whose steps are in these places."""
        self._places = places
        self.values["scenario"] = name

    # State

    def pipeline(self, name: str) -> None:
        """Set the pipeline: ``module:function``, one of this file, or ``<name>.pipeline.yaml``."""
        if FUNCTION_NAME.fullmatch(name) is not None:
            self.give(("pipeline",), name)
            return
        file = self._pipeline_file(name)
        folder = os.path.dirname(self._places.file) or os.curdir
        self.give(("pipeline",), os.path.relpath(file, folder))
        for document in self._library.documents(file):
            data = document.data
            if isinstance(data, dict) and ("agents" in data or "code" in data):
                self._names = names_of(self._library.subject(document))

    def state(self, channel: str, value: Any) -> None:
        """Set the value of a channel before the first turn."""
        self.give(("given", "state", self._names.find("channel", channel)), value)

    def give(self, path: Sequence[str], value: Any) -> None:
        """Set a value of the scenario under a path of keys."""
        *above, key = path
        place = self.values
        for step in above:
            place = place.setdefault(step, {})
        place[key] = value
        self._places.say(tuple(path), self.lines, below=0)

    def settings(self, values: Mapping[str, Any], *, of_turn: bool) -> None:
        """Set keys of a scenario file, or of its last turn, for which there is no phrase.

        Raise SourceError for a key that has phrases.
        """
        for key, value in values.items():
            if key in _STEP_KEYS:
                raise self.error(f"`{key}` is said in steps, not here", "`simkit bdd steps`")
            if not of_turn:
                self.give((key,), value)
                continue
            for path, turn in self._last_turns():
                turn[key] = value
                self._places.say((*path, key), self.lines, below=assembling.TURN)

    # Actions

    def say(
        self, user: Any, session: str | None = None, project: str | None = None, times: int = 1
    ) -> None:
        """Add a user message, a text or `{json: …}`: one turn, or several equal ones.

        Answers apply to each of them; claims concern the last.
        """
        where = {"session": session, "project": project}
        self._begin_turns(
            {"user": user, **{key: word for key, word in where.items() if word}}, times
        )

    def resume(self, value: Any) -> None:
        """Add a turn in which the user answers an agent's question."""
        self._begin_turns({"resume": value})

    def restart(self) -> None:
        """Let a new process, which reads only the store, take over before the next turn."""
        self._restart = self.lines

    def pause(self, duration: str) -> None:
        """Let virtual time pass before the next turn."""
        self._pause = duration, self.lines

    def explore(self, texts: Sequence[str], file: str, runs: int | None) -> None:
        """Let simulated users speak, and models answer anything, in many conversations."""
        if self.values.get("turns") or self._explored is not None:
            raise self.error("the story says already what happens", "Explore in one of its own.")
        if runs == 0:
            raise self.error("no conversation shows nothing", "Explore at least one.")
        if file:
            file = os.path.relpath(Path(self._places.file).parent / file)
        # Only a story that explores needs Hypothesis.
        from simkit.bdd.exploring import Explored

        self._explored = Explored(self._library, self._places, self.values, texts, file, runs)

    def explore_rules(self) -> None:
        """Explore without a claim of the story; raise SourceError for an error or a lint."""
        if self._explored is None:
            raise self.error(f"`nothing breaks` {_OF_EXPLORED}", _EXPLORE_FIRST)
        self._explored.check({}, self.lines, assembling.WHOLE)

    def reply(self, agent: str, line: Any, *, coming: bool = False) -> None:
        """Add a reply line of an agent's model: now, or for the user's next message."""
        path = ("replies", self._names.find("agent", agent))
        self._answer(_Answer(path, line, self.lines), coming)

    def fault(self, agent: str, fault: dict[str, Any], *, coming: bool = False) -> None:
        """Add a planned fault of an agent's model: now, or for the user's next message."""
        planned = {"agent": self._names.find("agent", agent), **fault}
        self._answer(_Answer(("faults",), planned, self.lines), coming)

    def result(self, tool: str, answer: dict[str, Any], *, coming: bool = False) -> None:
        """Add a tool's result, `{returns: …}` or `{error: …}`: now, or in every later turn.

        In one turn the second result of a tool answers its second call.
        """
        entry = _Answer(("tool_results", tool), answer, self.lines)
        if not coming:
            self._result(entry)
        elif "when" in answer:
            self._standing.setdefault(tool, []).append(entry)
        else:
            self._standing[tool] = [entry]

    def elicit(self, server: str, answer: dict[str, Any], *, coming: bool = False) -> None:
        """Add the user's answer to a server: now, or for the user's next message."""
        self._answer(_Answer(("elicits", server), answer, self.lines), coming)

    # Claims

    def claim(self, path: Sequence[str], matcher: Any) -> None:
        """Add a claim; explore if the story says no turn."""
        if self._explored is not None:
            self._explored.claim(path, matcher, self.lines, self.last_turn)
            return
        if self.last_turn == assembling.EVERY:
            raise self.error(f"`it always holds that` {_OF_EXPLORED}", _EXPLORE_FIRST)
        claim = assembling.Claim(self._claimed_turn(), tuple(path), matcher, self.lines)
        other = self._claims.add(claim)
        if other is not None:
            raise self.error(f"line {other.lines[0]} claims another count: {other.matcher}")

    def end(self) -> Ending:
        """Run the story, and check its claims and all lints; also in comparison runs."""
        if self._explored is not None:
            return Ending(self._explored.end(self.lines))
        if self._restart is not None:
            self.lines = self._restart
            raise self.error("a new process takes over, but the user says nothing after that")
        if self._pause is not None:
            self.lines = self._pause[1]
            raise self.error("the user waits, but says nothing after that")
        if self._coming:
            self.lines = self._coming[0].lines
            raise self.error(
                "this answers the user's next message, and the user says nothing after that",
                "Remove it, or let the user speak.",
            )
        prepared = assembling.whole(self._parts(), self._library)
        outcome = simulate(prepared, seed=self._seed)
        self._check_standing(outcome.view)
        judgement = assembling.in_steps(outcome.judgement, self._places.line_of)
        return Ending(judgement, prepared, outcome)

    def _check_standing(self, view: View) -> None:
        """Raise for a result for every turn that no turn asks for; backgrounds may have more."""
        called = {tool.tool for turn in view.turns for tool in turn.tools}
        for tool, answers in self._standing.items():
            for entry in answers:
                if tool not in called and entry.lines[0] > self._places.scenario[0]:
                    self.lines = entry.lines
                    raise self.error(
                        f"RUN-01: tool {tool!r} was called in no turn, but has a result",
                        "Remove it; results that several scenarios share stand in a `Background`.",
                    )

    def filled(self, template: Any, values: StepValues) -> Any:
        """Return a template's value for a line's values; raise TableInvalid."""
        below = self.below
        value = fill(template, lambda hole: below.value_of(hole, values))
        return {} if value is LEFT_OUT else value

    @property
    def below(self) -> Below:
        """Return the table or text below this step, with the names for its words."""
        return Below(self.text, self.table, self._schema, self._names.find, self._yaml)

    def _yaml(self) -> Any:
        # The text begins a line below its quotes, which are below the step.
        lines_above = "\n" * (self.lines[0] + 1)
        (document,) = load_text(f"{lines_above}{self.text or ''}", self._places.file)
        return document.data

    def _schema(self, name: str) -> Any:
        schemas = self._names.schemas
        if name not in schemas:
            raise SourceError(
                self._where(),
                f"the pipeline has no schema `{name}`",
                near=near(name, schemas),
                known=tuple(schemas),
            )
        return schemas[name]

    def error(self, problem: str, advice: str = "") -> SourceError:
        """Return an error about the current step."""
        return SourceError(self._where(), problem, advice=advice)

    # Internal parts

    def _parts(self) -> assembling.StoryParts:
        if not self.values.get("turns"):
            raise self.error("the user has said nothing yet, so there is nothing to judge", _SAY)
        if "pipeline" not in self.values and "use" not in self.values:
            raise self.error(
                "the feature names no pipeline", 'Write `Given the pipeline "…"` above this line.'
            )
        return assembling.StoryParts(self.values, self._claims, self._places, self._stood)

    def _claimed_turn(self) -> int:
        last = len(self._parts().values["turns"]) - 1
        turn = last if self.last_turn is None else self.last_turn
        if turn != assembling.WHOLE and not 0 <= turn <= last:
            raise self.error(f"there is no turn {turn + 1} yet: this is turn {last + 1}")
        return turn

    def _begin_turns(self, turn: dict[str, Any], times: int = 1) -> None:
        self._times = 1
        for _ in range(times):
            self._begin_turn(dict(turn))
        self._times, self._coming = times, []

    def _begin_turn(self, turn: dict[str, Any]) -> None:
        ended = self._claims.speak_of_the_end
        if ended is not None:
            raise self.error(f"the story goes on, but line {ended[0]} speaks of its end")
        turns = self.values.setdefault("turns", [])
        path = ("turns", len(turns))
        turns.append(turn)
        for key in turn:
            self._places.say((*path, key), self.lines, below=1)
        if self._restart is not None:
            turn["restart"] = True
            self._places.say((*path, "restart"), self._restart, below=assembling.TURN)
            self._restart = None
        if self._pause is not None:
            turn["pause"], lines = self._pause
            self._places.say((*path, "pause"), lines, below=assembling.TURN)
            self._pause = None
        self._stood.append(set())
        for entry in sorted(self._coming, key=lambda entry: entry.path[0] == "faults"):
            self._answer(entry)
        for answers in self._standing.values():
            for entry in answers:
                self._result(entry, stands=True)

    def _answer(self, entry: _Answer, coming: bool = False) -> None:
        """Add a reply or a planned failure to the last turn, or keep it for the next one."""
        if coming:
            self._coming.append(entry)
            return
        *above, key = entry.path
        for path, turn in self._last_turns():
            place = turn
            for step in above:
                place = place.setdefault(step, {})
            answers = place.setdefault(key, [])
            self._places.say((*path, *entry.path, len(answers)), entry.lines, below=assembling.TURN)
            answers.append(entry.value)

    def _result(self, entry: _Answer, stands: bool = False) -> None:
        tool = entry.path[-1]
        for path, turn in self._last_turns():
            results = turn.setdefault("tool_results", {})
            at: tuple[str | int, ...] = (*path, *entry.path)
            earlier = results.get(tool)
            stood = self._stood[path[1]]
            if stands:
                stood.add(tool)
            elif tool in stood:
                # A result in a turn replaces the one for every turn.
                stood.remove(tool)
                earlier = None
            if earlier is None:
                results[tool] = entry.value
            else:
                answers = earlier if isinstance(earlier, list) else [earlier]
                results[tool] = [*answers, entry.value]
                at = (*at, len(answers))
            self._places.say(at, entry.lines, below=assembling.TURN)

    def _last_turns(self) -> Iterator[tuple[tuple[str, int], dict[str, Any]]]:
        """Yield the turns of the user's last message, with their paths."""
        turns = self.values.get("turns")
        if not turns:
            raise self.error("the user has said nothing yet that this could answer", _SAY)
        for index in range(len(turns) - self._times, len(turns)):
            yield ("turns", index), turns[index]

    def _pipeline_file(self, name: str) -> str:
        folder = Path(self._places.file).parent
        if name.endswith((PIPELINE_SUFFIX, SCENARIO_SUFFIX)):
            found_files = [
                place / name for place in (folder, self._root) if os.path.isfile(place / name)
            ][:1]
        else:
            found_files = self._pipelines(f"{name}{PIPELINE_SUFFIX}")
        if len(found_files) > 1:
            files = ", ".join(os.path.relpath(file) for file in found_files)
            raise self.error(
                f"there are {len(found_files)} pipelines `{name}`: {files}", "Name the file."
            )
        if not found_files:
            near_by = self._pipelines(f"*{PIPELINE_SUFFIX}")
            known = tuple(sorted({file.name.removesuffix(PIPELINE_SUFFIX) for file in near_by}))
            folders = dict.fromkeys(os.path.relpath(each) for each in self._pipeline_folders())
            problem = f"there is no pipeline `{name}` in or below {', '.join(folders)}"
            advice = as_imported(name) if ":" in name else ""
            if "app:" in advice:
                advice += (
                    f" A file `NAME{PIPELINE_SUFFIX}` says this: `pipeline:`, `code:`, `app:`."
                )
            raise SourceError(
                self._where(), problem, near=near(name, known), known=known, advice=advice
            )
        return os.path.relpath(found_files[0])

    def _pipelines(self, pattern: str) -> list[Path]:
        return self._library.files(self._pipeline_folders(), pattern)

    def _pipeline_folders(self) -> list[Path]:
        return [Path(self._places.file).parent, *self._folders]

    def _where(self) -> str:
        return self._places.position(self.lines[0])


_SAY: Final = 'Write `When the user says "Hello"` before this line.'
StepValues = Mapping[str, Any]
"""The values of a phrase's holes."""
Tell = Callable[[Story, StepValues], None]


class Step(NamedTuple):
    """One line of the vocabulary."""

    text: str
    """The phrase; with a colon at its end it requires a part below it."""
    tell: Tell
    """Adds it to the story."""
    takes: tuple[str, ...] = ()
    """The required part below it: `table`, `text`, or one of both."""
    claims: tuple[str, ...] = ()
    """The claims that it makes: `reply`, `context.tokens`."""
    example: str = ""
    """The line in a feature, if no filled hole shows it."""
