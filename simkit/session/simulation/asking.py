"""Questions of a test about a turn: names must exist, matchers must be able to match."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from itertools import islice
from types import FrameType
from typing import Any, Final, NamedTuple, TypeVar

from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from simkit.checks.claims import schemas_of_calls
from simkit.checks.searching import names_section
from simkit.core.errors import SimkitError, SourceError
from simkit.core.messages import ROLE_ALIASES
from simkit.core.text import hinted, likely_word
from simkit.language.matching import kinds
from simkit.language.yaml import Document, Open, near
from simkit.providers.failures import FAILURES
from simkit.spec.fields import ANYTHING
from simkit.spec.loading import validated
from simkit.spec.scenario.apps import App
from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.known import KnownNames
from simkit.trace import events as e
from simkit.trace.views import View
from simkit.trace.views.contexts import CURRENT, HISTORY, INSTRUCTIONS, RUN

_KindT = TypeVar("_KindT")
__tracebackhide__ = True
_OWN: Final = "simkit.session.simulation."


class CallSite(NamedTuple):
    """The place of one call in a Python file."""

    file: str
    """The file, relative to the working directory."""
    line: int
    """The line, from 1."""
    column: int
    """The column, from 0."""
    last_line: int
    last_column: int

    @property
    def where(self) -> str:
        """Return ``file:line:column``, from 1."""
        return f"{self.file}:{self.line}:{self.column + 1}"

    def error(
        self, problem: str, near: str = "", known: Sequence[str] = (), advice: str = ""
    ) -> SourceError:
        """Return an error about the call."""
        return SourceError(self.where, problem, "", near, tuple(known), advice)


def call_site_of_caller() -> CallSite:
    """Return the place of the nearest calling code outside simkit."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_OWN):
        frame = frame.f_back
    if frame is None:
        return CallSite("<unknown>", 1, 0, 1, 0)
    positions = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), ())
    first, last, column, last_column = positions or (None, None, None, None)
    line = first or frame.f_lineno
    return CallSite(
        _typed(frame.f_code.co_filename), line, column or 0, last or line, last_column or 0
    )


def place_wrong_calls(kind: type[_KindT]) -> type[_KindT]:
    """Let a wrong call of a class's method, or a wrong attribute, be an error at the caller."""
    for name, method in [*vars(kind).items()]:
        if inspect.isfunction(method) and (name == "__call__" or not name.startswith("_")):
            setattr(kind, name, _with_place(method))
    if not hasattr(kind, "__getattr__"):
        kind.__getattr__ = refuse_attribute  # type: ignore[attr-defined]
    return kind


def _with_place(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return method(*args, **options)
        except TypeError:
            signature = inspect.signature(method)
            try:
                signature.bind(*args, **options)
            except TypeError as problem:
                raise _wrong_call(method, signature, options, str(problem)) from None
            raise

    return call


def _wrong_call(
    method: Callable[..., Any], signature: inspect.Signature, options: Iterable[str], problem: str
) -> SourceError:
    _, *names = (str(each).partition(":")[0] for each in signature.parameters.values())
    call = f"{method.__name__.replace('__call__', 'sim')}({', '.join(names)})"
    word = next((name for name in options if name not in signature.parameters), "")
    nearest = near(word, signature.parameters)
    advice = "After a star, values have names: `replies={…}`." * ("*" in call)
    return call_site_of_caller().error(f"`{call}`: {problem}", nearest, advice=advice)


def refuse_attribute(looked_at: Any, name: str) -> Any:
    """Raise AttributeError with the nearest attribute, or else all of the object's class."""
    if name in vars(type(looked_at)):  # A property's own code has raised one.
        return object.__getattribute__(looked_at, name)
    known = [known for known in vars(type(looked_at)) if not known.startswith("_")]
    nearest = "" if name.startswith("_") else likely_word(name, known, "attributes")
    problem = f"{type(looked_at).__name__!r} object has no attribute {name!r}"
    raise AttributeError(hinted(problem, nearest, () if nearest else known))


def _typed(file: str) -> str:
    """Return a path relative to the working directory; on another drive it stays absolute."""
    try:
        return os.path.relpath(file) if os.path.isabs(file) else file
    except ValueError:
        return file


def document_at(data: Mapping[str, Any], whole: CallSite, turns: Sequence[CallSite]) -> Document:
    """Return a scenario as a document of the Python file, each turn at its call."""
    text = "".join(linecache.getlines(whole.file))
    # A restart sends the document to another process, which a lambda would not survive.
    return Document(whole.file, 0, data, partial(_root, whole, tuple(turns)), text)


def _root(whole: CallSite, turns: tuple[CallSite, ...]) -> Node:
    """Return nodes for values with their own place; others use the nearest ancestor's."""
    items = [ScalarNode("", "", *_marks(turn), style='"') for turn in turns]
    key = ScalarNode("", "turns", *_marks(whole))
    return MappingNode("", [(key, SequenceNode("", items, *_marks(whole)))], *_marks(whole), False)


def _marks(site: CallSite) -> tuple[Mark, Mark]:
    return (
        _mark(site.file, site.line, site.column),
        _mark(site.file, site.last_line, site.last_column),
    )


def _mark(file: str, line: int, column: int) -> Mark:
    # Only the order of two marks' indices matters.
    return Mark(file, line * 10_000 + column, line - 1, column, None, 0)


# Questions


_OF_CONTEXTS: Final = ("messages", "dropped", "left_out", "sections", "tools", "handoffs_of")
_WRITE: Final = "of `simkit.matchers`"
_ADVICE: Final[Mapping[str, str]] = {
    "messages": f"write `message(user=…)` or `contains(…)` {_WRITE}",
    "dropped": f'write `partial({{"user": …, "by": …}})` or `contains(…)` {_WRITE}',
    "left_out": f'write `partial({{"channel": …}})` {_WRITE}',
    "handoffs": f'write `partial({{"to": …}})` {_WRITE}',
    "tool_calls": f'write `partial({{"tool": …}})` {_WRITE}',
    "tools": f'write its name, or `partial({{"name": …}})` {_WRITE}',
    "logs": f'write `partial({{"message": …}})` {_WRITE}',
    "events": f'write `partial({{"kind": …}})` {_WRITE}',
    "findings": f'write a lint\'s id, or `partial({{"id": …}})` {_WRITE}',
    "error": f'write `partial({{"type": …}})` {_WRITE}',
}
_ROLES: Final = ("system", "user", "assistant", "tool")


class CodeNames:
    """The names of code, as its file and its run have shown them so far."""

    def __init__(self, app: App) -> None:
        self._agents: dict[str, None] = dict.fromkeys(app.agents)
        self._tools: dict[str, None] = {}
        self._channels: dict[str, None] = {}
        self._kinds: dict[str, None] = {}
        self._read = 0

    def add_scripted(self, replies: Iterable[str], results: Iterable[str]) -> None:
        """Add the names for which a test has scripted something."""
        self._agents |= dict.fromkeys(replies)
        self._tools |= dict.fromkeys(results)

    def known(self, view: View) -> KnownNames:
        """Return the names; there may be others, since code need not show all of its names."""
        for event in view.events[self._read :]:
            self._hear(event)
        self._read = len(view.events)
        facts = view.pipeline
        agents = dict.fromkeys(filter(None, (*self._agents, *facts.agents)))
        tools = {
            **self._tools,
            **{tool: None for agent_facts in facts.agents.values() for tool in agent_facts.tools},
        }
        channels = {**self._channels, **dict.fromkeys(facts.channels)}
        return KnownNames(
            Open(agents), Open(channels), Open(tools), ANYTHING, ANYTHING, Open(tools), frozenset(),
            lambda agent: self._sections_of(agent, view), lambda agent: Open(tools), kinds.STATE,
            values=schemas_of_calls(view),
        )  # fmt: skip

    def _sections_of(self, agent: str, view: View) -> tuple[str, ...]:
        facts = view.pipeline.agents.get(agent)
        own = facts.sections if facts is not None else None
        return () if own is None else (*own, INSTRUCTIONS, HISTORY, CURRENT, RUN)

    def _hear(self, event: e.AnyEvent) -> None:
        self._agents[event.agent] = None
        if isinstance(event, e.ContextBuilt):
            self._tools |= dict.fromkeys(event.tools)
            self._agents |= dict.fromkeys(event.handoffs or ())
        elif isinstance(event, e.ToolCalled):
            self._tools[event.tool] = None
        elif isinstance(event, e.HandoffRequested):
            self._agents |= dict.fromkeys((event.from_agent, event.to_agent))
        elif isinstance(event, e.StateUpdated):
            self._channels |= dict.fromkeys(event.update)
        elif isinstance(event, e.MessageAdded):
            self._tools |= dict.fromkeys(call.name for call in event.message.calls)


class QuestionScope:
    """The valid questions about one turn, or about one context of an agent."""

    def __init__(self, names: Callable[[], KnownNames], site: CallSite, agent: str = "") -> None:
        """``agent`` is the agent of the context; ``site`` is where Python gave the message."""
        self._names, self._place, self.agent = names, site, agent

    def of(self, agent: str) -> QuestionScope:
        """Return the valid questions about an agent's contexts."""
        return QuestionScope(self._names, self._place, agent)

    def check(self, claim: str, matcher: Any) -> None:
        """Raise ValueError for a matcher that can never match a claim's values."""
        agent = self.agent
        if agent and names_section(matcher) and not self._sections():
            raise ValueError(self.unseen_sections())
        key = "handoffs" if claim == "handoffs_of" else claim
        calls = f"{agent}[0]" if agent else "*"
        data = {"context": {calls: {key: matcher}}} if claim in _OF_CONTEXTS else {key: matcher}
        document = document_at(data, self._place, ())
        names = ClaimNames(document, self._names())
        try:
            if claim == "findings":
                names.check_findings(matcher, ())
            else:
                names.check(validated(Expect, document), ())
        except SourceError as problem:
            raise ValueError(_words(problem, claim)) from None
        except SimkitError as problem:
            raise ValueError(str(problem)) from None

    def check_name(self, noun: str, word: str) -> None:
        """Raise ValueError for an unknown name, or one that the agent's contexts cannot have."""
        known = self._known(noun)
        if known is ANYTHING or word in known:
            return
        if noun == "role" and word in ROLE_ALIASES:
            raise ValueError(f"unknown role `{word}`; did you mean `{ROLE_ALIASES[word]}`?")
        # A section that was removed from the recipe is a finding, not an error in the test.
        if noun != "section" or word not in self._names().all_sections:
            raise ValueError(unknown(noun, word, tuple(known)))

    def check_section(self, name: str) -> None:
        """Raise ValueError for a section that no context of the agent can have."""
        known = self._sections()
        if not known:
            raise ValueError(self.unseen_sections())
        if name not in known:
            problem = f"agent `{self.agent}` has no section `{name}`"
            raise ValueError(hinted(problem, near(name, known), known))

    def unseen_sections(self) -> str:
        """Return the error that code's messages have no sections, and what to write."""
        return (
            f"which message of agent `{self.agent}` is of which section is not seen; say it: "
            f'`agents={{"{self.agent}": {{"sections": {{…}}}}}}`'
        )

    def _sections(self) -> tuple[str, ...]:
        known = self._names()
        own = known.sections_of(self.agent) if self.agent else known.sections
        return tuple(name for name in own if name)

    def _known(self, noun: str) -> Iterable[Any]:
        if noun == "section":
            return self._sections() or ANYTHING
        return _NAMES[noun] if noun in _NAMES else self._names().of(noun)


_NAMES: Final[Mapping[str, Iterable[str]]] = {"role": _ROLES, "type of an error": Open(FAILURES)}


def unknown(noun: str, word: str, known: Iterable[str]) -> str:
    """Return the error about an unknown name, with the nearest and the known ones."""
    return hinted(f"unknown {noun} `{word}`", near(word, known), known)


def _words(problem: SourceError, claim: str) -> str:
    advice = _ADVICE.get(claim, problem.advice)
    return hinted(problem.what, problem.near, problem.known, advice)


def advice_for(claim: str) -> str:
    """Return advice on how to match the list of a claim."""
    return _ADVICE.get(claim, "")
