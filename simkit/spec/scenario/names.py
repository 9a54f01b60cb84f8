"""Names in a scenario file: each must exist in its pipeline; and the questions to a judge."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from simkit.core.errors import MatcherError, MessageInvalid
from simkit.core.text import late_pattern
from simkit.language.json_schema import is_number
from simkit.language.matching import check
from simkit.language.matching.kinds import QUERY, check_kind
from simkit.language.paths import follow
from simkit.language.yaml import Document, SourcePath
from simkit.providers.failures import FAILURES
from simkit.spec.fields import ANYTHING, require, shown_value
from simkit.spec.lint_catalogue import FINDINGS, LINTS, PREFIX
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.root_names import keys_in, leads_to, message_of
from simkit.spec.refers_to import name_references
from simkit.spec.scenario.apps import App, check_program
from simkit.spec.scenario.claim_names import ClaimNames
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.known import KnownNames, Subject, known_in, values_in
from simkit.spec.scenario.model import Scenario, Shared, Turn
from simkit.spec.scenario.moments import TOOL_MARK, flat_order, places_of_orders
from simkit.spec.scenario.replies import ErrorLine, Fault, placed_lines

_RULE: tuple[str, ...] = ("when", "score")
_PLACE: Final = late_pattern(r"\[[1-9]\d*\]$")
"""The end of a name in a schedule: which of an agent's waiting calls it is."""
_ADVICE = "Write a number, or a list of `{when: {$contains: …}, score: 0.9}`."


def check_scores(items: Any, document: Document, at: SourcePath) -> None:
    """Raise SourceError for the first invalid score in a channel of items."""
    if not isinstance(items, (list, tuple)):
        return
    for index, item in enumerate(items):
        score = item.get("score") if isinstance(item, dict) else None
        path = (*at, index, "score")
        if isinstance(score, (list, tuple)):
            for number, rule in enumerate(score):
                _check_rule(rule, document, (*path, number))
        elif not (score is None or is_number(score) or (isinstance(score, str) and "${" in score)):
            raise document.error(path, "a score must be a number, or a list", advice=_ADVICE)


def _check_rule(rule: Any, document: Document, at: SourcePath) -> None:
    if not isinstance(rule, dict) or not is_number(rule.get("score")):
        raise document.error(at, "a rule of a score needs `score`, a number", advice=_ADVICE)
    for key in rule:
        if key not in _RULE:
            raise document.error(
                (*at, key),
                f"unknown key of a score's rule `{key}`",
                word=key,
                known=_RULE,
                key=True,
            )
    if rule.get("when") is None:
        return
    try:
        check(rule["when"])
        check_kind(rule["when"], QUERY)
    except MatcherError as problem:
        raise document.error_of(problem, (*at, "when")) from None


# Keys that only HTTP traffic can show; a pipeline in YAML reads no bytes, so they are rejected


_OF_RESPONSES: Final = ("logprobs", "citations", "raw")
_ON_A_WIRE: Final = frozenset(("error", "chunks", *_OF_RESPONSES))


def _check_shown(scenario: Scenario, document: Document) -> None:
    """Raise SourceError for the first key in a declared scenario that needs HTTP traffic."""
    for path, field in _shown_by_a_wire(scenario):
        about = "a provider's response" if field in _OF_RESPONSES else "the bytes of a reply"
        raise document.error(
            path,
            f"`{field}` is about {about}, and a pipeline in YAML reads none",
            advice="It is for a pipeline that is code: `pipeline: module:function`.",
        )


def _shown_by_a_wire(scenario: Scenario) -> Iterator[tuple[SourcePath, str]]:
    for number, turn in enumerate(scenario.turns):
        for agent, lines in turn.replies.items():
            for at, line in placed_lines(lines, ("turns", number, "replies", agent)):
                if _ON_A_WIRE.isdisjoint(line.__pydantic_fields_set__):
                    continue
                if _is_wire_only(kind := _kind(line.error)):
                    yield (*at, "error"), kind
                if line.chunks == "bytes":
                    yield (*at, "chunks"), "chunks: bytes"
                for word in _OF_RESPONSES:
                    if getattr(line, word):
                        yield (*at, word), word
        yield from _in_faults(("turns", number, "faults"), turn.faults)
    yield from _in_faults(("faults",), scenario.faults)


def _in_faults(at: SourcePath, faults: Sequence[Fault]) -> Iterator[tuple[SourcePath, str]]:
    for index, fault in enumerate(faults):
        if _is_wire_only(kind := _kind(fault.error)):
            yield (*at, index, "error"), kind


def _kind(error: str | ErrorLine | None) -> str:
    return error.type if isinstance(error, ErrorLine) else error or ""


def _is_wire_only(kind: str) -> bool:
    return kind in FAILURES and FAILURES[kind].is_wire_only


# Names in a scenario file: each must exist in its pipeline


def check_messages(messages: Any, document: Document, at: SourcePath) -> None:
    """Raise SourceError for the first message in a channel that would lose a part."""
    is_list = isinstance(messages, (list, tuple))
    if messages is None or (isinstance(messages, dict) and "$set" in messages):
        return
    for index, message in enumerate(messages if is_list else [messages]):
        path = (*at, index) if is_list else at
        try:
            message_of(message)
        except MessageInvalid as problem:
            raise document.error_of(problem, path, key=bool(problem.path)) from None


CONTEXT_KEYS: Final = ("sections", "messages", "tools", "agent", "turn")
"""Keys of a reply line's ``when`` beside the sections."""


def check_scenario(scenario: Scenario, document: Document, subject: Subject) -> None:
    """Raise SourceError for the first unknown name, or for a key that is not supported yet."""
    for lint in scenario.lints:
        lints = FINDINGS if lint.startswith(PREFIX) else LINTS
        require(document, ("lints", lint), "lint", lint, lints, key=True)
    known = known_in(subject)
    if isinstance(subject, App):
        _check_app(scenario, document, subject)
    else:
        _check_declared(scenario, document, subject)
        _check_shown(scenario, document)
        _check_names(scenario, document, known)
    _check_given(scenario.given.state, document, known)
    claims = ClaimNames(document, known, scenario.given.state, partial(values_in, scenario))
    projects: dict[str, str] = {}
    for index, turn in enumerate(scenario.turns):
        at = ("turns", index)
        _check_project(turn, document, at, projects)
        _check_turn(turn, document, at, known, subject)
        if index == 0 and turn.restart:
            raise document.error(
                (*at, "restart"),
                "nothing has run before the first turn that could be restarted",
                key=True,
            )
        claims.check(turn.expect, (*at, "expect"))
    claims.check(scenario.expect, ("expect",))


def _check_names(model: Scenario | Shared, document: Document, known: KnownNames) -> None:
    """Raise SourceError for the first name in a field that the pipeline does not have."""
    names = {"agent": known.agents, "channel": known.channels, "tool": known.declared_tools}
    for path, word, refers_to, is_key in name_references(model, document.data):
        require(document, path, refers_to.kind, word, names[refers_to.kind], is_key)


APP_KEYS: Final = ("app", "agents", "allow_hosts", "servers")
"""Keys of a scenario that only apply to a pipeline that is code."""


def _check_declared(scenario: Scenario, document: Document, pipeline: Pipeline) -> None:
    if scenario.cassette is not None and not pipeline.models:
        raise document.error(
            ("cassette",),
            f"pipeline `{pipeline.pipeline}` does not say which models are recorded",
            advice="Name them in it: `models: {default: openai/gpt-5-mini}`.",
            key=True,
        )
    for key in APP_KEYS:
        if key in scenario.model_fields_set:
            raise document.error(
                (key,),
                f"`{key}` is about a pipeline that is code, and this one is YAML",
                advice="A pipeline that is code is named `pipeline: module:function`.",
                key=True,
            )


def _check_app(scenario: Scenario, document: Document, app: App) -> None:
    """Reject keys that need a declared pipeline."""
    if app.program:
        check_program(document, scenario.app)
        for path in places_of_orders(document.data):
            raise document.error(
                path,
                "a program is answered as its requests come: simkit does not see what else it does",
                key=True,
            )
        for key, problem in (
            ("allow_hosts", "simkit cannot keep a program from the network: it reaches any host"),
            ("servers", "a program reaches real servers: simkit answers only its models"),
        ):
            if key in scenario.model_fields_set:
                raise document.error((key,), problem, key=True)
        return
    if scenario.given.state and app.options.given is None:
        raise document.error(
            ("given", "state"),
            f"the state of `{app.pipeline}` is its own: nothing can be given",
            advice="Name a function that puts it in: `app: {given: module:function}`.",
            key=True,
        )


def check_shared(shared: Shared, document: Document, subject: Subject) -> None:
    """Raise SourceError for the first unknown name in a file under ``use``."""
    known = known_in(subject)
    if "agents" in shared.model_fields_set and not isinstance(subject, App):
        raise document.error(
            ("agents",), "`agents` is about a pipeline that is code, and this one is YAML", key=True
        )
    for code in shared.lints:
        require(document, ("lints", code), "finding", code, FINDINGS, key=True)
    _check_names(shared, document, known)
    _check_given(shared.given.state, document, known)
    _check_results(shared.tool_results, document, ("tool_results",), known)


def _check_given(state: Mapping[str, Any], document: Document, known: KnownNames) -> None:
    for channel, value in state.items():
        path = ("given", "state", channel)
        if channel in known.recalled:
            check_scores(value, document, path)
        if channel in known.result_names:
            check_messages(value, document, path)


def _check_turn(
    turn: Turn, document: Document, at: SourcePath, known: KnownNames, subject: Subject
) -> None:
    """Check a turn without its claims, and without what depends on the turns before it."""
    _check_message(turn, document, at)
    _check_cut(turn, document, at, subject)
    _check_replies(turn, document, at, known)
    _check_order(turn.schedule, document, (*at, "schedule"), known)
    _check_results(turn.tool_results, document, (*at, "tool_results"), known)


def _check_message(turn: Turn, document: Document, at: SourcePath) -> None:
    """Check what the user says in a turn."""
    if "resume" in turn.model_fields_set:
        if turn.user is not None:
            raise document.error(
                (*at, "resume"),
                "a turn has `user:` or `resume:`, not both",
                advice="`resume:` answers what an agent asked; `user:` says something new.",
                key=True,
            )
        return
    if turn.user is None and "user" in turn.model_fields_set:
        advice = 'A `#` begins a comment: quote a text that begins with it, `user: "#1"`.'
        raise document.error((*at, "user"), "`user:` is empty", advice=advice, key=True)
    if turn.user is None:
        advice = "Write what the user says: `- user: Hello`."
        raise document.error(at, "a turn needs `user:`", advice=advice)
    if "json_" in turn.user.model_fields_set and turn.user.json_ is None:
        raise document.error(
            (*at, "user", "json"),
            "the user's message must be a value, not null",
            advice="Write what the user says, or a value such as `user: {json: {}}`.",
        )
    if "parts" in turn.user.model_fields_set:
        problem = "`parts` is not supported by this version of simkit"
        raise document.error((*at, "user", "parts"), problem, key=True)


def _check_cut(turn: Turn, document: Document, at: SourcePath, subject: Subject) -> None:
    """Check that the turn can end before its reply, and its process be restored."""
    if turn.cancel is not None and turn.crash is not None:
        raise document.error((*at, "crash"), "a turn is cancelled or crashes, not both", key=True)
    if turn.is_cut and isinstance(subject, App) and subject.program:
        raise document.error(
            (*at, "crash" if turn.cancel is None else "cancel"),
            "a program runs by itself: simkit cannot end its turns",
            key=True,
        )
    ends_process = "restart" if turn.restart else "crash" if turn.crash is not None else ""
    if ends_process and not isinstance(subject, App) and subject.store == "memory":
        raise document.error(
            (*at, ends_process),
            f"pipeline `{subject.pipeline}` has `store: memory`, which ends with its process",
            advice="With `store: sqlite`, or without `store:`, there is something to restore.",
            key=True,
        )


def _check_project(
    turn: Turn, document: Document, at: SourcePath, projects: dict[str, str]
) -> None:
    """Check that a session stays in the project of its first turn."""
    project = projects.setdefault(turn.session, turn.project)
    if project != turn.project:
        raise document.error(
            (*at, "project") if "project" in turn.model_fields_set else at,
            f"session `{turn.session}` belongs to project `{project}`, not `{turn.project}`",
            advice="Give the turn another `session:`, or the same `project:`.",
        )


# Replies


def _check_replies(turn: Turn, document: Document, at: SourcePath, known: KnownNames) -> None:
    """Check the tools that reply lines call, and what their `when` looks at."""
    for agent, lines in turn.replies.items():
        for inside, line in placed_lines(lines, (*at, "replies", agent)):
            if line.calls is not None and not line.unchecked:
                tools = known.tools_of(agent)
                _check_calls(agent, document, inside, tools, known.declared_tools)
            if line.when is not None:
                keys = (*filter(None, known.sections_of(agent)), *CONTEXT_KEYS)
                _check_when(line.when, document, (*inside, "when"), keys, known.all_sections)


def _check_order(
    order: Sequence[str | Sequence[str]], document: Document, at: SourcePath, known: KnownNames
) -> None:
    for steps, name in flat_order(order):
        word = _PLACE.sub("", name)
        path = (*at, *steps)
        if word.endswith(TOOL_MARK):
            require(document, path, "tool", word.removesuffix(TOOL_MARK), known.declared_tools)
        else:
            require(document, path, "agent", word, known.agents)


def _check_when(
    matcher: Any,
    document: Document,
    at: SourcePath,
    known: tuple[str, ...],
    other_names: Collection[str],
) -> None:
    for where, key in keys_in(matcher, at):
        if not leads_to(key, known) and not leads_to(key, tuple(other_names)):
            require(document, where, "part of a context", key, known, key=True)


def _check_calls(
    agent: str, document: Document, at: SourcePath, tools: Sequence[str], declared: Sequence[str]
) -> None:
    """Reject tools that the pipeline does not have.

    A tool that only the agent no longer has is a finding of the run.
    """
    if tools is ANYTHING:
        return
    for path, tool in _calls_of(follow(document.data, (*at, "calls")), (*at, "calls")):
        if tool not in tools and tool not in declared:
            raise document.error(
                path,
                f"agent `{agent}` has no tool `{tool}`",
                word=tool,
                known=tuple(tools),
                advice="" if tools else "Its `tools:` in the pipeline name none.",
                key=True,
            )


def _calls_of(calls_data: Any, at: SourcePath) -> Iterator[tuple[SourcePath, str]]:
    """Yield the tools that a line calls, as the file writes them: a list, or a mapping."""
    if isinstance(calls_data, Mapping):
        for tool in calls_data:
            yield (*at, tool), tool
    elif isinstance(calls_data, list):
        for index, call in enumerate(calls_data):
            yield from _calls_of(call, (*at, index))


def _check_results(
    results: Iterable[str], document: Document, at: SourcePath, known: KnownNames
) -> None:
    for tool in results:
        if known.tools is not ANYTHING and tool not in known.declared_tools:
            raise document.error(
                (*at, tool),
                f"no agent has tool `{tool}`",
                word=tool,
                known=sorted(known.tools),
                key=True,
            )


_MODEL = (
    "Name one: `judge: openai/gpt-5-mini`. A scenario may answer itself, under `judge_replies:`."
)


def check_judge(scenario: Scenario, document: Document) -> None:
    """Raise SourceError for a question that no model answers, or an answer to no question."""
    for expect, replies, at in _parts(scenario):
        if not replies and not expect.judge:
            continue
        questions = {question.text: question for question in expect.questions}
        for text, reply in replies.items():
            path = (*at, "judge_replies", text)
            if text not in questions:
                raise document.error(
                    path,
                    f"no claim asks the judge this: `{text}`",
                    word=text,
                    known=tuple(questions),
                    advice="A question stands under `judge:` in the claims beside it.",
                    key=True,
                )
            if not questions[text].takes(reply):
                form = questions[text].form
                raise document.error(path, f"the answer must be {form}, not {shown_value(reply)}")
        for text in questions:
            if scenario.judge is None and text not in replies:
                path = (*at, "expect", "judge", text)
                problem = "there is no model that answers this question"
                raise document.error(path, problem, advice=_MODEL, key=True)


def check_no_model_is_asked(scenario: Scenario, document: Document) -> None:
    """Raise SourceError for a question that the scenario does not answer itself."""
    for expect, replies, at in _parts(scenario):
        for question in expect.questions:
            if question.text not in replies:
                raise document.error(
                    (*at, "expect", "judge", question.text),
                    "a judge is a model, and none is asked here",
                    advice="Only `judge_replies:` answers here. `simkit replay` takes the answer "
                    "from a cassette, too.",
                    key=True,
                )


def _parts(scenario: Scenario) -> Iterator[tuple[Expect, Mapping[str, Any], SourcePath]]:
    for index, turn in enumerate(scenario.turns):
        yield turn.expect, turn.judge_replies, ("turns", index)
    yield scenario.expect, scenario.judge_replies, ()
