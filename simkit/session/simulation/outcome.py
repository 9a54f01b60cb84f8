"""The outcome of one turn, for a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from simkit.checks.claims import unobservable, unobservable_in_context
from simkit.checks.findings import Scope, scope_of_turn
from simkit.checks.runs import groups_of
from simkit.core.errors import MatcherError, SourceError
from simkit.core.messages import JsonValue
from simkit.core.text import counted
from simkit.language.yaml import near
from simkit.session.simulation import listed
from simkit.session.simulation.asking import QuestionScope, place_wrong_calls
from simkit.session.simulation.seen import Named, SeenError, seen_error
from simkit.spec.scenario.claim_kinds import aspect
from simkit.spec.scenario.claims import Expect, selected
from simkit.spec.scenario.questions import YES_NO, Answer, Question, possible_answers
from simkit.trace.events import LogRecorded
from simkit.trace.views import CallView, ContextView, Prefix, TurnView, View, log_fields, prefix_of

if TYPE_CHECKING:
    from simkit.session.simulation.conversation import Simulation

__tracebackhide__ = True
"""pytest shows the line of the test, not the frames below it."""


_FORMS_OF_ANSWERS: Final[Mapping[type | None, Answer]] = {
    None: "choice",
    bool: "boolean",
    int: "number",
    float: "number",
    str: "text",
}


@place_wrong_calls
class SeenContext(listed.Messages):
    """All that one model call received: its messages, in order."""

    def __init__(
        self, view: ContextView, subject: QuestionScope, refuse_unseen: Callable[[str, str], None]
    ) -> None:
        """``refuse_unseen`` raises for aspects of contexts that are not observable."""
        super().__init__(view.messages, subject)
        self._view, self._refuse_unseen = view, refuse_unseen

    @property
    def sections(self) -> listed.NameList:
        """Return the non-empty sections in order, each once."""
        self._refuse_unseen(self.subject.agent, "sections")
        return listed.NameList(self._view.sections, self.subject, "sections")

    def section(self, name: str) -> listed.Messages:
        """Return the messages of a section; none if it made nothing."""
        self.subject.check_section(name)
        return listed.Messages(self._view.section(name), self.subject)

    @property
    def dropped(self) -> listed.Drops:
        """Return the messages that histories dropped, each with the filter (``by``)."""
        self._refuse_unseen(self.subject.agent, "dropped")
        return listed.Drops(self._view.dropped(), self.subject)

    @property
    def left_out(self) -> listed.Records:
        """Return the items that other sections left out, each with the reason (``by``)."""
        self._refuse_unseen(self.subject.agent, "left_out")
        return listed.Records(self._view.left_out(), self.subject, "left_out")

    @property
    def tools(self) -> listed.Tools:
        """Return the offered tools, each with its ``definition``."""
        return listed.Tools(self._view.offers, self.subject, "tools")

    @property
    def handoffs(self) -> listed.NameList | None:
        """Return the agents that control may be passed to; None if an offered tool names none."""
        if self._view.handoffs is None:
            return None
        return listed.NameList(self._view.handoffs, self.subject, "handoffs_of")

    @property
    def tokens(self) -> int:
        """Return the size of the context in tokens, by the pipeline's counter."""
        return self._view.tokens

    @property
    def prefix(self) -> Prefix | None:
        """Return the front that equals the agent's request before: its ``tokens``, their ``share``
        of the request's, and ``where`` it ends; None for the agent's first call in the session."""
        return prefix_of(self._view)

    @property
    def settings(self) -> Mapping[str, JsonValue]:
        """Return the model's settings."""
        return self._view.settings or {}


@place_wrong_calls
class TurnOutcome:
    """The outcome of one turn."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        """``number`` counts turns from 1."""
        self._simulation, self.number = simulation, number

    def __repr__(self) -> str:
        return f"<turn {self.number}>"

    def __await__(self) -> NoReturn:
        raise self._error(" is over when `say` returns: leave out `await`")

    @property
    def _turn(self) -> TurnView:
        view = self._simulation.view
        if self.number > len(view.turns):
            raise self._error(f" was not run: {_why_not(view)}")
        return view.turns[self.number - 1]

    @property
    def reply(self) -> Any:
        """Return the pipeline's answer, a text or a value; raise if the turn ended with an error.

        A test that expects the error accesses `error` first.
        """
        error = self._turn.error
        if error is not None and not self._simulation.expects_error(self.number):
            raise self._error(f" ended with {error.type}: {error.message}")
        return self._turn.reply

    @property
    def error(self) -> SeenError | None:
        """Return the error of the turn (``type``, ``message``); None if there is none.

        Accessing an error marks it as expected: the conversation may continue.
        """
        error = self._turn.error
        if error is None:
            return None
        self._simulation.expect_error(self.number)
        return seen_error(error, self._subject())

    def judge(
        self,
        question: str,
        *,
        one_of: Sequence[str] = YES_NO,
        answer: type[bool] | type[float] | type[str] | None = None,
    ) -> Any:
        """Return the judge's recorded answer to a question about this turn.

        It is one of the texts in ``one_of``, or of the type ``answer``; `int` and `float` are both
        a number. The simulation names the model, ``judge="openai/gpt-5-mini"``, and a cassette.
        Raise if there is no answer.
        """
        to_ask = self._question(question, one_of, answer)
        answered = self._simulation.ask_judge(self.number, to_ask)
        if answered is None:
            raise self._error(
                f": nobody can answer {question!r}: the judge needs a model and a cassette, "
                'sim(…, judge="openai/gpt-5-mini", cassette="desk")'
            )
        if answered.error:
            raise self._error(f": the judge gave no answer to {question!r}: {answered.error}")
        return answered.answer

    def _question(self, text: str, one_of: Sequence[str], answer: type | None) -> Question:
        """Return a question to the judge; raise for one that no model could be asked."""
        if not isinstance(text, str) or not text.strip():
            raise self._error(": a question to the judge must be a text, and not empty")
        if answer is not None and one_of is not YES_NO:
            raise self._error(": an answer is `one_of` some texts, or of the type `answer`")
        if answer not in _FORMS_OF_ANSWERS:
            raise self._error(": `answer` must be bool, int, float or str")
        try:
            choices = possible_answers(one_of) if answer is None else ()
        except MatcherError as problem:
            raise self._error(f": `one_of`: {problem.what}") from None
        return Question(text, _FORMS_OF_ANSWERS[answer], choices, None)

    @property
    def interrupt(self) -> Any:
        """Return an agent's question to the user, or None; ``resume`` answers it."""
        return self._turn.interrupt

    @property
    def agents(self) -> listed.Agents:
        """Return the agents in the order in which they started; parallel ones are a list."""
        self._refuse_unseen("agents")
        return listed.Agents(groups_of(self._turn.runs), self._subject())

    def context(self, agent: str, call: int | None = None) -> SeenContext:
        """Return the context of an agent's model call; ``0`` is the first, ``-1`` the last.

        Raise for an agent with several calls in the turn if none is selected: a fact about one of
        them may not be true for another.
        """
        calls = self._calls(agent)
        if call is None and len(calls) > 1:
            count_text = counted(len(calls), "model call")
            raise self._error(
                f": agent `{agent}` made {count_text}: say which, `context({agent!r}, 0)` or "
                f"`context({agent!r}, -1)`, or look at all of them, `contexts({agent!r})`"
            )
        index = call or 0
        if not -len(calls) <= index < len(calls):
            count_text = counted(len(calls), "model call")
            raise self._error(f": agent `{agent}` made {count_text}, and none is `{index}`")
        return self._context(calls[index])

    def contexts(self, agent: str) -> listed.Contexts:
        """Return the contexts of an agent's model calls in this turn, in order."""
        subject = self._subject(agent)
        return listed.Contexts((self._context(call) for call in self._calls(agent)), subject)

    def _context(self, call: CallView) -> SeenContext:
        return SeenContext(call.context, self._subject(call.agent), self._refuse_unseen_in_context)

    def _calls(self, agent: str) -> Sequence[CallView]:
        calls = self._turn.calls_by_agent.get(agent)
        if calls is None:
            agents = list(self._turn.calls_by_agent)
            raise self._error(f": agent `{agent}` made no model call", near(agent, agents), agents)
        return calls

    @property
    def model_calls(self) -> Named[int]:
        """Return the number of model calls of each agent."""
        counts = {agent: len(calls) for agent, calls in self._turn.calls_by_agent.items()}
        return Named(counts, "model_calls", "agent", self._subject())

    @property
    def handoffs(self) -> listed.Records:
        """Return handoff requests in order: ``from to type mode query payload outcome``."""
        self._refuse_unseen("handoffs")
        return listed.Records(
            (h.fields() for h in self._turn.handoffs), self._subject(), "handoffs"
        )

    @property
    def tool_calls(self) -> listed.Records:
        """Return tool calls in order: ``agent tool args result error``."""
        self._refuse_unseen("tool_calls")
        return listed.Records(
            (tool.fields() for tool in self._turn.tools), self._subject(), "tool_calls"
        )

    @property
    def logs(self) -> listed.Records:
        """Return log records of the code's own loggers: ``level logger message error agent``.

        For a pipeline that is code, with ``app={"logs": True}``; otherwise none is recorded.
        """
        if "logs" not in self._simulation.view.pipeline.observes:
            raise self._error(': log records are not seen; say `app={"logs": True}`')
        records = (log_fields(event) for event in self.events if isinstance(event, LogRecorded))
        return listed.Records(records, self._subject(), "logs")

    @property
    def state(self) -> listed.Channels:
        """Return the channels after the turn, before those of scope turn are cleared."""
        self._refuse_unseen("state")
        return listed.Channels(self._turn.state, self._subject())

    @property
    def events(self) -> listed.Events:
        """Return the events of the turn."""
        view = self._simulation.view
        events = view.events[self._turn.lo : self._turn.hi]
        return listed.Events(map(view.whole_event, events), self._subject())

    @property
    def findings(self) -> listed.Findings:
        """Return the findings of this turn; accessing them marks them as handled."""
        return listed.Findings(self._simulation.look_at_findings(self.number), self._subject())

    def _subject(self, agent: str = "") -> QuestionScope:
        return QuestionScope(self._simulation.known, self._simulation.place_of(self.number), agent)

    def _scope(self) -> Scope:
        view = self._simulation.view
        return scope_of_turn(self._turn, self.number - 1, Expect(), view)

    def _refuse_unseen(self, claim: str) -> None:
        """Raise for an aspect that the pipeline does not show: its absence would always hold."""
        need = unobservable(self._scope(), claim)
        if need:
            raise self._error(
                f": `{claim}` is not observable here: {aspect(need).words} cannot be seen"
            )

    def _refuse_unseen_in_context(self, agent: str, claim: str) -> None:
        need = unobservable_in_context(self._scope(), selected(agent), claim, None)
        if need:
            raise self._error(
                f": `{claim}` of agent `{agent}` is not observable here: "
                f"{aspect(need).words} cannot be seen"
            )

    def _error(self, problem: str, nearest: str = "", known: Iterable[str] = ()) -> SourceError:
        call_site = self._simulation.place_of(self.number)
        return call_site.error(f"turn {self.number}{problem}", nearest, tuple(known))


def _why_not(view: View) -> str:
    last = view.turns[-1] if view.turns else None
    if last is not None and last.error is not None:
        return (
            f"turn {last.number} ended with {last.error.type}: {last.error.message}\n"
            "  If that is meant, look at its `error` before."
        )
    return view.error.message if view.error is not None else "the conversation was over"
