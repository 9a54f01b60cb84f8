"""A conversation led from Python, turn by turn."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypedDict, Unpack

from simkit.checks.findings import Finding
from simkit.checks.judge import Judgement, readdressed
from simkit.core.errors import SimkitError, SourceError
from simkit.core.output import clean
from simkit.language.yaml import Document, load_text, near
from simkit.report.text import findings_text
from simkit.runtime.compiled import compile_pipeline
from simkit.session.simulate import Conversation, run
from simkit.session.simulation.asking import (
    CallSite,
    CodeNames,
    QuestionScope,
    call_site_of_caller,
    document_at,
    place_wrong_calls,
    refuse_attribute,
)
from simkit.session.simulation.listed import Findings
from simkit.session.simulation.outcome import TurnOutcome
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.loading import validated
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.code_names import as_imported
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.filling import Filling
from simkit.spec.scenario.items import PIPELINE_SUFFIX, ScenarioCase
from simkit.spec.scenario.known import KnownNames, Subject, known_in
from simkit.spec.scenario.model import DEFAULT_START, Scenario, Turn
from simkit.spec.scenario.names import check_scenario
from simkit.spec.scenario.questions import Question
from simkit.trace.events import JudgeAnswered
from simkit.trace.store import Trace
from simkit.trace.views import View


class TurnKeys(TypedDict, total=False):
    """Keys of a turn, as in a scenario file; null is the same as none."""

    replies: Mapping[str, Any] | None
    tool_results: Mapping[str, Any] | None
    elicits: Mapping[str, Any] | None
    session: str | None
    project: str | None
    restart: bool
    pause: str | None


def pipeline_of(
    named: str | os.PathLike[str] | Mapping[str, Any],
    site: CallSite,
    library: Library,
    folders: Sequence[Path],
    scenario: Scenario,
    document: Document,
) -> tuple[Subject, Document]:
    """Return the pipeline, and its document; raise SourceError.

    ``scenario``, and its document, add options to a pipeline that is code.
    """
    if is_code(named):
        return library.subject(document, scenario), document
    if isinstance(named, Mapping):
        documents = [document_at(named, site, ())]
    elif isinstance(named, str) and "\n" in named:
        documents = load_text(named, f"<pipeline in {site.file}:{site.line}>")
    else:
        documents = library.documents(_file(os.fspath(named), site, folders))
    pipelines = [
        file_document
        for file_document in documents
        if isinstance(file_document.data, Mapping) and "scenario" not in file_document.data
    ]
    if len(pipelines) != 1:
        raise site.error(f"one pipeline is wanted here, but there are {len(pipelines)}")
    return library.subject(pipelines[0], scenario), pipelines[0]


def is_code(named: object) -> bool:
    """Return whether a test names a pipeline as ``module:function``."""
    return isinstance(named, str) and FUNCTION_NAME.fullmatch(named) is not None


def _file(name: str, site: CallSite, folders: Sequence[Path]) -> str:
    """Return the file, beside the test, in one of the folders, or in the working directory."""
    around = [Path(site.file).parent, *folders, Path()]
    for folder in around:
        if os.path.isfile(folder / name):
            return os.path.relpath(folder / name)
    known = sorted({file.name for folder in around for file in folder.glob(f"*{PIPELINE_SUFFIX}")})
    advice = as_imported(name) if ":" in name else ""
    raise site.error(f"there is no pipeline `{name}`", near(name, known), known, advice)


def fakes(*, seed: int = 0, start: str = DEFAULT_START, **people: Any) -> Mapping[str, Any]:
    """Make up people and things: ``fakes(seed=7, customers=3)["customers"][0]["email"]``.

    Each is a number, a locale, or a mapping as in a scenario file; a file with the same seed and
    start gives the same ones. Raise SourceError at the line of the call.

    >>> simkit.fakes(seed=7, customers=2) == simkit.fakes(seed=7, customers=2)
    True
    """
    call_site = call_site_of_caller()
    values = {"seed": seed, "start": start, "given": {"fakes": people}}
    try:
        return Filling(document_at(values, call_site, ()), None).people
    except SourceError as problem:
        raise _located(problem, call_site) from None


__tracebackhide__ = True
"""pytest shows the line of the test, not the frames below it."""
_ANY_ERROR: Final = Expect.model_validate({"error": {"$any": True}})
ADVICE: Final = (
    "A test that accesses `run.findings` or `run.error` accepts them; a lint is turned off with "
    "a reason: lints={'CTX-01': 'why'}."
)


class _Script(NamedTuple):
    """The script so far."""

    turns: tuple[Turn, ...] = ()
    turn_values: tuple[Mapping[str, Any], ...] = ()
    """The turns as the test wrote them."""
    places: tuple[CallSite, ...] = ()
    """Their places in the test."""

    def longer(self, turn: Turn, turn_data: Mapping[str, Any], site: CallSite) -> _Script:
        """Return the script with one more turn."""
        return _Script((*self.turns, turn), (*self.turn_values, turn_data), (*self.places, site))


@place_wrong_calls
class Simulation:
    """A conversation with a pipeline and scripted models, led from Python.

    ``pipeline`` is a file, YAML text of several lines, a mapping, or code, ``module:function``. As
    a context manager it is checked at its end.

    >>> with simkit.Simulation("desk.pipeline.yaml") as desk:
    ...     turn = desk.say("Hello", replies={"desk": "Good day."})
    ...     assert turn.reply == "Good day."
    """

    def __init__(
        self,
        pipeline: str | os.PathLike[str] | Mapping[str, Any],
        *,
        state: Mapping[str, Any] | None = None,
        seed: int = 0,
        start: str = DEFAULT_START,
        name: str = "",
        folders: Sequence[Path] = (),
        library: Library | None = None,
        **keys: Any,
    ) -> None:
        """``state`` are initial channel values; ``keys`` are further ones of a scenario file.

        ``lints`` are turned-off lints with the reason. ``app``, ``agents``, ``allow_hosts`` and
        ``servers`` are for code; folders are relative to the calling file. ``cassette`` names
        recorded traffic, which answers agents without replies in a turn; ``record`` are the
        options of comparing it.
        ``judge`` is the model whose recorded answers `TurnOutcome.judge` returns.
        ``folders`` are searched for the pipeline's file, after that of the calling file.
        """
        self._place = call_site_of_caller()
        self._values: dict[str, Any] = {
            "version": 1,
            "scenario": name or self._place.where,
            "pipeline": pipeline if is_code(pipeline) else "the pipeline",
            "seed": seed,
            "start": start,
            "given": {"state": dict(state or {})},
            **{key: value for key, value in keys.items() if value is not None},
        }
        self._script = self._ran = _Script()
        self._conversation: Conversation | None = None
        self._judgement: Judgement | None = None
        self._findings_read: set[Finding] = set()
        self._opened: dict[str, int] = {}
        """Session to the index of its first turn."""
        try:
            first = {**self._values, "turns": [{"user": "Hello"}]}
            document = document_at(first, self._place, [self._place])
            self._scenario = validated(Scenario, document)
            self._pipeline, self._pipeline_document = pipeline_of(
                pipeline, self._place, library or Library(), folders, self._scenario, document
            )
            check_scenario(self._scenario, document, self._pipeline)
        except SimkitError as problem:
            raise _located(problem, self._place) from None
        subject = self._pipeline
        self._names_known = CodeNames(subject) if isinstance(subject, App) else None

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self.check()
        finally:
            self.close()

    def say(self, user: str | Mapping[str, Any], **turn: Unpack[TurnKeys]) -> TurnOutcome:
        """Add a turn in which the user says a text or ``{"json": …}``; return its outcome.

        The options are keys of a turn in a scenario file.
        """
        return self._add({"user": user, **turn})

    def __getattr__(self, name: str) -> Any:
        """Raise AttributeError with a hint for an attribute that only a turn has."""
        if name.startswith("_") or not hasattr(TurnOutcome, name):
            refuse_attribute(self, name)
        raise AttributeError(
            f"a conversation has no `{name}`, each of its turns has: "
            f'`sim(…).say("Hello").{name}`, or `turn = sim(…).say("Hello")` and then `turn.{name}`'
        )

    def resume(self, value: Any, **turn: Unpack[TurnKeys]) -> TurnOutcome:
        """Add a turn in which the user answers an agent's question; return its outcome."""
        return self._add({"resume": value, **turn})

    @property
    def view(self) -> View:
        """Return the view of the trace so far; run the new turns first."""
        return self._caught_up().view if self._script.turns else View()

    @property
    def trace(self) -> Trace:
        """Return the trace as if it ended here; raise if there are no turns."""
        if not self._script.turns:
            raise self._place.error("the user has said nothing yet")
        return self._caught_up().trace()

    @property
    def findings(self) -> Findings:
        """Return the findings of all turns; accessing them marks them as handled.

        They include those of comparison runs (see `judgement`), which no single turn shows.
        """
        findings = self._looked_at(self.judgement().findings)
        return Findings(findings, QuestionScope(self.known, self._place))

    def check(self) -> None:
        """Raise AssertionError for findings that the test has not accessed."""
        if unseen := self.unseen():
            raise AssertionError(clean(f"{findings_text(unseen)}\n\n{ADVICE}"))

    def unseen(self) -> list[Finding]:
        """Return the findings that the test has not accessed."""
        findings = self.judgement().findings
        return [finding for finding in findings if finding not in self._findings_read]

    def judgement(self) -> Judgement:
        """Return the judgement of all turns so far.

        The run is compared with others: without restarts, each session alone, and, if user code
        ran, a second equal run.
        """
        if self._judgement is None:
            self._judgement = self._judged()
        return self._judgement

    def close(self) -> None:
        """Release resources, such as the environment of a pipeline that is code.

        Outcomes that were accessed stay available; no turn can be added.
        """
        if self._conversation is not None:
            self._conversation.close()

    # The interface for outcomes

    def look_at_findings(self, number: int) -> list[Finding]:
        """Return the findings of a turn, and mark them as handled."""
        judgement = readdressed(self._caught_up().judgement({number - 1}), _in_python)
        return self._looked_at([each for each in judgement.findings if each.turn == number])

    def expects_error(self, number: int) -> bool:
        """Return whether the test has accessed the error of a turn."""
        return self._script.turns[number - 1].expect.has("error")

    def expect_error(self, number: int) -> None:
        """Record that the test has accessed the error of a turn."""
        if self.expects_error(number):
            return
        turns = list(self._script.turns)
        turns[number - 1] = turns[number - 1].model_copy(update={"expect": _ANY_ERROR})
        self._script = self._script._replace(turns=tuple(turns))
        self._judgement = None

    def ask_judge(self, number: int, question: Question) -> JudgeAnswered | None:
        """Ask the judge a question about a turn; return the answer, None if nobody can answer."""
        self._judgement = None
        return self._caught_up().ask(number, question)

    def place_of(self, number: int) -> CallSite:
        """Return the place of a turn's user message."""
        return self._script.places[number - 1]

    def known(self) -> KnownNames:
        """Return the known names; of code, those that its file and its run have shown so far."""
        names = self._names_known
        return names.known(self._caught_up().view) if names else known_in(self._pipeline)

    # Internal parts

    def _add(self, keys: Mapping[str, Any]) -> TurnOutcome:
        """Add a turn; it is run on the first access to its results."""
        call_site = call_site_of_caller()
        turn_data = {key: value for key, value in keys.items() if value is not None}
        try:
            alone = document_at({**self._values, "turns": [turn_data]}, self._place, [call_site])
            (turn,) = validated(Scenario, alone).turns
            longer = self._script.longer(turn, turn_data, call_site)
            number = len(self._script.turns)
            opened = self._opened.get(turn.session, number)
            self._check(longer, sorted({0, opened, number}))
        except SimkitError as problem:
            raise _located(problem, call_site) from None
        self._opened[turn.session] = opened
        if self._names_known is not None:
            self._names_known.add_scripted(turn.replies, turn.tool_results)
        self._script = longer
        self._judgement = None
        return TurnOutcome(self, len(self._script.turns))

    def _check(self, script: _Script, indices: Sequence[int]) -> None:
        """Raise for errors in some turns: a new one, and those that it depends on."""
        values = {**self._values, "turns": [script.turn_values[index] for index in indices]}
        document = document_at(values, self._place, [script.places[index] for index in indices])
        turns = tuple(script.turns[index] for index in indices)
        check_scenario(self._scenario.model_copy(update={"turns": turns}), document, self._pipeline)

    def _caught_up(self) -> Conversation:
        """Run the new turns."""
        conversation = self._conversation
        if conversation is not None and self._ran is self._script:
            return conversation
        prepared = self._prepared()
        try:
            conversation = conversation or Conversation(prepared)
            conversation.follow(prepared)
        except SimkitError as problem:
            # A later access reports the error again.
            self._conversation = None
            if conversation is not None:
                conversation.close()
            raise _located(problem, self._script.places[-1]) from None
        self._ran, self._conversation = self._script, conversation
        return conversation

    def _prepared(self) -> Prepared:
        script = self._script
        values = {**self._values, "turns": list(script.turn_values)}
        document = document_at(values, self._place, script.places)
        scenario = self._scenario.model_copy(update={"turns": script.turns})
        item = ScenarioCase(document.file, scenario.scenario, 0, self._place.line)
        return Prepared(
            item, scenario, document, self._pipeline, self._pipeline_document, (), document
        )

    def _looked_at(self, findings: Sequence[Finding]) -> list[Finding]:
        self._findings_read.update(findings)
        return list(findings)

    def _judged(self) -> Judgement:
        if not self._script.turns:
            return Judgement((), (), (), ())
        conversation = self._caught_up()
        call_site = self._script.places[-1]
        try:
            pipeline = self._pipeline
            if not isinstance(pipeline, App) and compile_pipeline(pipeline).functions.were_called:
                _hold_to_repeat(conversation.trace(), run(self._prepared()), call_site)
            return readdressed(conversation.judgement(compared=True), _in_python)
        except SimkitError as problem:
            raise _located(problem, call_site) from None


def _in_python(address: re.Match[str]) -> str:
    """Return an address of a scenario file as an argument of a turn's `say`."""
    which = f"[{address['place']}]" if address["place"] else ""
    argument = f"turn {int(address['turn']) + 1}'s {address['kind']}[{address['name']!r}]{which}"
    return f"{address['adds'] or ''}{address['under'] or ''}{argument}"


def _hold_to_repeat(once: Trace, again: Trace, site: CallSite) -> None:
    """Raise if a second run differs from the first, in which the judge was asked, too."""
    events = (event for event in once.events if not isinstance(event, JudgeAnswered))
    for left, right in zip(events, again.events, strict=False):
        if left != right:
            raise site.error(
                f"turn {getattr(left, 'turn', 0)} gave another result when it was run again "
                f"({type(left).__name__} differs): user code keeps data in its module that "
                "belongs in a channel"
            )


def _located(problem: SimkitError, site: CallSite) -> SourceError:
    """Return the error at the line of the test that caused it."""
    if not isinstance(problem, SourceError):
        return site.error(str(problem))
    at = problem.at
    if at.startswith("turns["):
        # The place shows which turn it is.
        at = at.partition("].")[2]
    return SourceError(problem.where, problem.what, at, problem.near, problem.known, problem.advice)
