"""Checks of a scenario: lines that are never used or cannot be, and claims that always hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from simkit.core import messages as m
from simkit.core.errors import MatcherError, OutputInvalid
from simkit.core.text import counted
from simkit.language.json_schema import place_text, schema_errors
from simkit.language.paths import walk
from simkit.language.yaml import SourcePath
from simkit.spec.pipeline.agents import listed, members_of, startable, summarisers_of, tools_of
from simkit.spec.pipeline.model import Pipeline
from simkit.spec.pipeline.models import is_off
from simkit.spec.scenario.claim_kinds import Domain
from simkit.spec.scenario.claims import CONTEXT_CLAIMS, SECTION_CLAIM, TURN_CLAIMS, Expect
from simkit.spec.scenario.model import Scenario, Turn
from simkit.spec.scenario.replies import HandoffLine, ReplyLine, lines_of, placed_lines
from simkit.spec.validation.problems import Flaw
from simkit.trace.store import canonical

_OF_SUMMARIES: Final = frozenset(("instructions", "private", "requires", "sees"))
"""Keys that are read of an agent that summarizes another's history."""


def unreachable(pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield VAL-10, agents that nothing can start, and VAL-14, contracts only for these.

    An agent that is asked for summaries alone has keys that nothing reads, which are VAL-14, too.
    """
    reached, members = startable(pipeline), members_of(pipeline)
    running = {members[name] for name in reached}
    for name in pipeline.agents:
        if name not in running:
            yield Flaw("VAL-10", ("agents", name), f"nothing can start agent `{name}`", key=True)
    for name in summarisers_of(pipeline) - {members[each] for each in startable(pipeline, False)}:
        for key in pipeline.agents[name].model_fields_set - _OF_SUMMARIES:
            problem = f"agent `{name}` only summarizes, so its `{key}` does nothing"
            yield Flaw("VAL-14", ("agents", name, key), problem, key=True)
    for index, contract in enumerate(pipeline.contracts):
        if "*" not in contract.from_ and reached.isdisjoint(contract.from_):
            problem = f"nothing can use this contract: nothing can start {listed(contract.from_)}"
            yield Flaw("VAL-14", ("contracts", index), problem)


# Reply lines and tool results of a scenario, as far as they are known before a run


Read: TypeAlias = Callable[[str, str, str], tuple[Any, str]]
"""Returns the output for a reply's text, the agent's ``parse`` and its name."""
UNREGISTERED = "HND-11"
"""The lint that reports in a run the same as VAL-22 in a file."""


def line_flaws(scenario: Scenario, pipeline: Pipeline, read: Read) -> Iterator[Flaw]:
    """Yield VAL-20 to VAL-23: flaws of lines and results that are known without a run."""
    lines = _Lines(pipeline, read)
    speaks_anyway = is_off(scenario.lints, UNREGISTERED) or _speaks_of_refusals(scenario.expect)
    for index, turn in enumerate(scenario.turns):
        at = ("turns", index)
        speaks = speaks_anyway or _speaks_of_refusals(turn.expect)
        for agent, reply_lines in turn.replies.items():
            path = (*at, "replies", agent)
            yield from lines.of_agent(agent, reply_lines, path, speaks)
        yield from _result_flaws(turn, scenario, (*at, "tool_results"))


class _Lines:
    def __init__(self, pipeline: Pipeline, read: Read) -> None:
        self._pipeline, self._read = pipeline, read
        self._members, self._started = members_of(pipeline), startable(pipeline)

    def of_agent(
        self,
        agent: str,
        reply_lines: ReplyLine | tuple[ReplyLine, ...],
        at: SourcePath,
        speaks: bool,
    ) -> Iterator[Flaw]:
        """Yield the flaws of an agent's lines.

        ``speaks`` is true if the scenario mentions refused handoffs.
        """
        definition = self._members[agent]
        if self._pipeline.agents[definition].function is not None:
            problem = f"agent `{agent}` has reply lines, but it is a function and asks no model"
            advice = "Remove the lines: a scenario cannot answer for a function."
            yield Flaw("VAL-20", at, problem, advice, key=True)
            return
        if agent not in self._started:
            problem = f"agent `{agent}` has reply lines, but nothing can ever start it"
            yield Flaw("VAL-20", at, problem, key=True)
            return
        for path, line in placed_lines(reply_lines, at):
            if line.handoff is not None:
                yield from self._of_handoff(agent, line.handoff, (*path, "handoff"), speaks)
            elif line.function is None and line.error is None and not line.unchecked:
                yield from self._of_line(definition, line.reply(), path)

    def _of_line(self, agent: str, reply: m.Reply, at: SourcePath) -> Iterator[Flaw]:
        # A summary is a text, whatever the agent's output otherwise is.
        if isinstance(reply, m.Calls):
            yield from self._of_calls(agent, reply, at)
        elif isinstance(reply, (m.Text, m.Structured)) and agent not in summarisers_of(
            self._pipeline
        ):
            output = self._pipeline.agents[agent].output
            for path, problem in self._errors(output, self._value(agent, reply)):
                problem_text = f"{_located(path, problem)}; so says the `output` of agent `{agent}`"
                yield Flaw("VAL-21", at, problem_text)

    def _value(self, agent: str, reply: m.Text | m.Structured) -> Any:
        if isinstance(reply, m.Structured):
            return reply.value
        try:
            return self._read(reply.text, self._pipeline.of_agent(agent, "parse"), agent)[0]
        except OutputInvalid:
            return reply.text

    def _of_calls(self, agent: str, reply: m.Calls, at: SourcePath) -> Iterator[Flaw]:
        offered = tools_of(self._pipeline, agent)
        for call in reply.calls:
            if call.tool not in offered:
                problem = f"agent `{agent}` is not offered tool `{call.tool}`"
                advice = f"Its tools: {', '.join(offered) or 'none'}."
                yield Flaw("VAL-21", (*at, "calls"), problem, advice)
                continue
            tool = self._pipeline.tools.get(call.tool)
            for path, problem in self._errors(tool.args if tool is not None else None, call.args):
                problem_text = f"{_located(path, problem)}; so says `args` of tool `{call.tool}`"
                advice = "Correct the line, or the tool's `args`."
                yield Flaw("VAL-21", (*at, "calls"), problem_text, advice)

    def _errors(self, schema: Any, value: Any) -> Iterable[tuple[SourcePath, str]]:
        """Return a schema's errors; parts that only user code, or a run, decides are skipped."""
        named = self._pipeline.schemas
        if isinstance(schema, Mapping) and set(schema) == {"$ref"}:
            schema = named.get(schema["$ref"], schema)
        if schema is None or isinstance(schema, str):
            return ()
        try:
            return schema_errors(schema, canonical(value), named)[:1]
        except MatcherError:
            return ()

    def _of_handoff(
        self, agent: str, line: HandoffLine, at: SourcePath, speaks: bool
    ) -> Iterator[Flaw]:
        types = [
            contract.type
            for contract in self._pipeline.contracts
            if contract.to == line.to and {agent, "*"} & set(contract.from_)
        ]
        pair = f"from `{agent}` to `{line.to}`"
        if line.type is None:
            if len(types) > 1:
                problem = f"the handoff {pair} must say its type: there are contracts for "
                problem += listed(types)
                yield Flaw("VAL-21", at, problem, "Write which one under `type:`.")
        elif line.type not in types and not speaks:
            known = listed(types)
            problem = f"no contract {pair} is of type `{line.type}`; "
            problem += f"there are {known}" if known else "the pair has none"
            yield Flaw("VAL-22", (*at, "type"), problem)


def _located(path: SourcePath, text: str) -> str:
    return f"{place_text(path)}: {text}" if path else text


def _speaks_of_refusals(expect: Expect) -> bool:
    """Return whether claims mention an unregistered type, or a rejected handoff."""
    if any(
        isinstance(finding, Mapping) and finding.get("id") == UNREGISTERED
        for finding in expect.findings or ()
    ):
        return True
    return _holds_pair(expect.handoffs, "outcome", "rejected") or _holds_pair(
        expect.events, "kind", "HandoffRejected"
    )


def _holds_pair(matcher: Any, key: str, word: str) -> bool:
    return any(path[-1:] == (key,) and inner == word for path, inner in walk(matcher))


# Tool results


def calls_in(turn: Turn, scenario: Scenario) -> Counter[str] | None:
    """Return the number of calls of each tool in the lines of a turn.

    None if a function decides, or a recording answers agents without lines.
    """
    if scenario.cassette is not None:
        return None
    counts: Counter[str] = Counter()
    for reply_lines in turn.replies.values():
        for line in lines_of(reply_lines):
            if line.function is not None:
                return None
            counts.update(call.tool for call in line.calls or ())
    return counts


def _result_flaws(turn: Turn, scenario: Scenario, at: SourcePath) -> Iterator[Flaw]:
    """Yield VAL-23: every model call takes one of the turn's lines, so no others call a tool."""
    calls = calls_in(turn, scenario) if turn.tool_results else None
    if calls is None:
        return
    for tool, result in turn.tool_results.items():
        if not calls[tool]:
            problem = f"no reply line of this turn calls tool `{tool}`"
            yield Flaw("VAL-23", (*at, tool), problem, key=True)
        elif result.successive and len(result.answers) > calls[tool]:
            problem = (
                f"tool `{tool}` has {counted(len(result.answers), 'result')}, one for each call, "
                f"but the lines of this turn call it {counted(calls[tool], 'time')}"
            )
            yield Flaw("VAL-23", (*at, tool, calls[tool]), problem)


# VAL-24: claims that always hold. The list is short and certain


_NEGATIONS: Final = ("$not", "$ne", "$eq", "$schema", "$keys")
"""Operators that are not searched: their operands are values, or hold the other way round."""
_BETTER: Final = "Claim the value itself, or a bound that could be missed."


def vacuous_claims(scenario: Scenario, pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield every claim that cannot fail."""
    for index, turn in enumerate(scenario.turns):
        yield from _of(turn.expect, ("turns", index, "expect"), pipeline)
    yield from _of(scenario.expect, ("expect",), pipeline)


def _of(expect: Expect, at: SourcePath, pipeline: Pipeline) -> Iterator[Flaw]:
    if not expect.model_fields_set:
        return
    for name, kind in TURN_CLAIMS.items():
        if expect.has(name) and kind.domain is not None:
            yield from _certain(getattr(expect, name), (*at, name), kind.domain)
    yield from _of_channels(expect.state, (*at, "state"), pipeline)
    for name in ("error", "interrupt"):
        if expect.has(name):
            yield from _inside(getattr(expect, name), (*at, name))
    if expect.has("findings") and not expect.findings:
        problem = "an empty list asks for nothing: other findings may be there"
        yield Flaw("VAL-24", (*at, "findings"), problem, "Remove it: unclaimed lints fail anyway.")
    for name in ("model_calls", "satisfies"):
        if expect.has(name) and not getattr(expect, name):
            yield Flaw("VAL-24", (*at, name), "nothing is named, so nothing is claimed")
    yield from _of_contexts(expect, at)
    for key, run in expect.runs.items():
        for name in run.model_fields_set:
            yield from _inside(getattr(run, name), (*at, "runs", key, name))


def _of_contexts(expect: Expect, at: SourcePath) -> Iterator[Flaw]:
    for key, context in expect.context.items():
        path = (*at, "context", key)
        for name, matcher in context.claimed().items():
            inside = (*path, name)
            if name in ("includes", "excludes"):
                if not matcher:
                    advice = f"Name what must {'not ' if name == 'excludes' else ''}be there."
                    yield Flaw("VAL-24", inside, f"an empty `{name}` claims nothing", advice)
                for index, element in enumerate(matcher or ()):
                    if name == "excludes" and _never(element, "value"):
                        problem = "no message could ever match this, so none has to be left out"
                        yield Flaw("VAL-24", (*inside, index), problem)
            else:
                kind = CONTEXT_CLAIMS.get(name, SECTION_CLAIM)
                yield from _certain(matcher, inside, kind.domain)


def _of_channels(state: Any, at: SourcePath, pipeline: Pipeline) -> Iterator[Flaw]:
    """Yield claims that a declared channel is present: it always is."""
    if not isinstance(state, Mapping):
        return
    for name, matcher in state.items():
        channel = pipeline.channels.get(name)
        is_there = channel is not None and channel.scope != "agent_run"
        if is_there and _always(matcher, "value") and not _always(matcher, "absent"):
            problem = f"channel `{name}` always has a value, so this cannot fail"
            yield Flaw("VAL-24", (*at, name), problem, _BETTER)


def _certain(matcher: Any, at: SourcePath, domain: Domain | None) -> Iterator[Flaw]:
    if domain is not None and _always(matcher, domain):
        noun = {"list": "list", "count": "number of tokens"}.get(domain, "value")
        yield Flaw("VAL-24", at, f"this matches every {noun}, so it cannot fail", _BETTER)
    else:
        yield from _inside(matcher, at)


def _inside(matcher: Any, at: SourcePath) -> Iterator[Flaw]:
    """Yield the inner matchers that always hold, or never hold."""
    if isinstance(matcher, Mapping):
        if matcher and _always(matcher, "value") and _always(matcher, "absent"):
            yield Flaw("VAL-24", at, "this holds whether anything is there or not", _BETTER)
            return
        for key, inner in matcher.items():
            if key not in _NEGATIONS:
                yield from _inside(inner, (*at, key))
    elif isinstance(matcher, (list, tuple)):
        for index, inner in enumerate(matcher):
            yield from _inside(inner, (*at, index))


def _always(matcher: Any, domain: Domain) -> bool:
    """Return whether a matcher certainly holds for every value of a domain."""
    return (
        isinstance(matcher, Mapping)
        and bool(matcher)
        and all(_operator_always(key, operand, domain) for key, operand in matcher.items())
    )


def _operator_always(key: str, operand: Any, domain: Domain) -> bool:
    match key, domain:
        case "$any", _:
            return domain in ("value", "count")
        case "$absent", _:
            return domain == "absent"
        case "$not", _:
            return _never(operand, domain)
        case "$either" | "$in", _:
            return any(_always(element, domain) for element in operand)
        case "$all", _:
            return all(_always(element, domain) for element in operand)
        case "$schema", _:
            return domain != "absent" and not operand
        case "$len", "list":
            return _always(operand, "count")
        case "$each", "list":
            return _always(operand, "value")
        case "$gte", "count":
            return bool(operand <= 0)
        case "$gt", "count":
            return bool(operand < 0)
    return False


def _never(matcher: Any, domain: Domain) -> bool:
    """Return whether a matcher certainly holds for no value of a domain."""
    if not isinstance(matcher, Mapping):
        return domain == "absent"
    return any(_operator_never(key, operand, domain) for key, operand in matcher.items())


def _operator_never(key: str, operand: Any, domain: Domain) -> bool:
    match key:
        case "$absent":
            return domain in ("value", "count")
        case "$not":
            return _always(operand, domain)
        case "$either" | "$in":
            return all(_never(element, domain) for element in operand)
        case "$all":
            return any(_never(element, domain) for element in operand)
        case "$lt" | "$lte" if domain == "count":
            return operand < 0 or (key == "$lt" and operand == 0)
    return domain == "absent"
