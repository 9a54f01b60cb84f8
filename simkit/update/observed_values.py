"""Observed values as claims that a person would write, and the first claims of a turn."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final

import msgspec

from simkit.checks.claims import unobservable
from simkit.checks.findings import Scope, scope_of_turn
from simkit.checks.mutants import Fact
from simkit.checks.runs import groups_of
from simkit.checks.unclaimed import UNFINISHED
from simkit.core.errors import SimkitError
from simkit.core.messages import ABSENT, Dropped, Message, ToolCall
from simkit.core.redact import Redactor
from simkit.core.text import PASSING, word_end
from simkit.language.matching import compile_matcher
from simkit.language.matching.mappings import CALL_FIELDS
from simkit.language.matching.values import Content, ToolName, is_list
from simkit.language.paths import walk, with_parts
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.writing import flow
from simkit.trace.views import CallView, TurnView, View


def claim_of(value: Any) -> Any:
    """Return a claim that holds for a value: plain data, messages in their short form."""
    if value is ABSENT:
        return {"$absent": True}
    if isinstance(value, Content):
        return claim_of(value.data) if isinstance(value.data, dict | list) else value.text
    if isinstance(value, Dropped):
        return {**claim_of(value.message), "what": value.what, "by": value.by}
    if isinstance(value, Message):
        return _claim_of_message(value)
    if isinstance(value, ToolCall):
        if value.name in CALL_FIELDS:
            return {"name": value.name, "args": claim_of(value.args)}
        return {value.name: claim_of(value.args)}
    if isinstance(value, Mapping):
        return claim_of_mapping(value) or {"$exact": {}}
    if is_list(value):
        return [claim_of(item) for item in value]
    if isinstance(value, ToolName):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return claim_of(msgspec.to_builtins(value))


def claim_of_mapping(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return claims on all keys; a key that would be an operator is written with ``$$``."""
    return {(f"${k}" if k.startswith("$") else k): claim_of(v) for k, v in value.items()}


def _claim_of_message(message: Message) -> dict[str, Any]:
    message_claim = Content(message.content, message.data or None)
    structure = message_claim.structure
    # JSON reads better as its value, and matches like that.
    content = claim_of(structure) if isinstance(structure, dict | list) else message_claim.text
    claim: dict[str, Any] = {message.role: content}
    if message.calls:
        claim["calls"] = [claim_of(call) for call in message.calls]
    return claim


def claim_of_handoff(handoff: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual claim on a handoff: the mode if it is not the default, and so on."""
    fields = {
        key: claim_of(handoff[key])
        for key in ("from", "to", "type", "mode", "query", "payload", "outcome", "reason")
        if handoff.get(key)
    }
    for key, default in (("mode", "transfer"), ("outcome", "made")):
        if fields.get(key) == default:
            del fields[key]
    return fields


def claim_of_tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usual claim on a tool call: without ids and times."""
    answer = "error" if call["error"] is not None else "result"
    claim = {key: claim_of(call[key]) for key in ("agent", "tool", "args") if call[key]}
    return {**claim, answer: claim_of(call[answer])}


def holds(matcher: Any, value: Any) -> bool:
    """Return whether a matcher holds; an invalid one does not."""
    try:
        return compile_matcher(matcher).holds(value)
    except SimkitError:
        return False


# Stable claims: without secrets, and without values that differ in another run or machine


MESSAGES_MAX: Final = 20
"""The number of messages that are claimed one by one; of more, only the number is claimed."""
WHOLE_MAX: Final = 300
"""The length of a text that is claimed whole; of a longer one, only its beginning."""
START_MAX: Final = 60
"""The length of such a beginning."""
_FIRST_LINE: Final = re.compile(
    rf"(\s*(?:[^\n]{{20,{START_MAX}}}(?!(?<=\w)\w)|[^\n]{{0,{START_MAX}}})).*", re.DOTALL
)
"""Instructions in triple quotes begin with an empty line."""
PARTS_MAX: Final = 4
"""The number of parts of a long text that are claimed beside its beginning."""
_LINE_LEAST: Final = 12
"""The least length of a line that distinguishes instructions."""
_LEAST: Final = 4
"""The least length of a beginning that says anything."""
_ANYTHING: Final[Mapping[str, Any]] = {"$any": True}


class StableClaims:
    """Makes claims for one scenario."""

    def __init__(self, redactor: Redactor, own_words: str = "", texts: Sequence[str] = ()) -> None:
        """``own_words`` are the scenario's texts: a date in them is stable.

        ``texts`` are what users, models and tools say in it: a claim on a part of a message names
        those in the rest.
        """
        self._redactor, self._own_words = redactor, own_words
        self._texts = [text for text in texts if redactor.value(text) == text]
        self._instructions: Sequence[str] = ()
        """The instructions of the other agents."""

    def with_other_agents(self, instructions: Sequence[str]) -> StableClaims:
        """Return the same for an agent, given the instructions of the others."""
        other = copy(self)
        other._instructions = instructions
        return other

    def without_secrets(self, claim: Any) -> Any:
        """Return a claim without secrets."""
        return _without_redacted(claim, self._redactor.value(claim))

    def on_messages(self, call: CallView, before: CallView | None) -> dict[str, Any]:
        """Return claims on the messages that code sent, or on those since an earlier call."""
        context = call.context
        if before is None:
            names = [*context.tools]
            # A framework may keep them in a set: each process has its own order.
            tools = {"tools": names if len(names) == 1 else {"$unordered": names}} if names else {}
            return {"messages": self._of_messages(context.messages), **tools}
        earlier = {message.id for message in before.context.messages if message.id}
        fresh = [
            candidate
            for candidate in context.messages
            if candidate.id and candidate.id not in earlier
        ]
        claim = self._of_messages(fresh)
        return {"includes": claim} if fresh and is_list(claim) else {}

    def _of_messages(self, messages: Sequence[Message]) -> Any:
        claim = [self._of_message(message) for message in messages]
        if len(messages) > MESSAGES_MAX or not holds(claim, messages):
            return {"$len": len(messages)}
        return claim

    def _of_message(self, message: Message) -> Any:
        claim = claim_of(message)
        content = claim[message.role]
        if message.role == "system" and isinstance(content, str):
            first = _FIRST_LINE.sub(r"\1", content, count=1)
            claim[message.role] = first if first == content else {"$starts": first.rstrip()}
        claim = self.without_secrets(self.lasting(claim, WHOLE_MAX))
        part = claim.get(message.role) if isinstance(claim, Mapping) else None
        if isinstance(content, str) and isinstance(part, Mapping) and [*part] == ["$starts"]:
            claim[message.role] = self._with_own_parts(part, content, message.role)
        return claim

    def _with_own_parts(
        self, part: Mapping[str, Any], content: str, role: str
    ) -> Mapping[str, Any]:
        """Return a claim on a message's beginning and on what distinguishes the rest.

        That is what the scenario's own texts put there, and for instructions that begin as those of
        another agent their first line that no other has.
        """
        parts = [text for text in self._texts if text in content and text not in part["$starts"]]
        parts = [text for text in parts if not any(text in more for more in parts if more != text)]
        if role == "system" and any(
            text.startswith(part["$starts"]) for text in self._instructions
        ):
            parts = [*self._own_line(content), *parts]
        parts = parts[:PARTS_MAX]
        if not parts:
            return part
        return {**part, "$contains": parts[0] if len(parts) == 1 else parts}

    def _own_line(self, content: str) -> list[str]:
        """Return the first line that no other agent's instructions have, if it is stable."""
        for line in content.splitlines():
            start = line.strip()[:START_MAX].rstrip()
            if len(start) < _LINE_LEAST or any(start in other for other in self._instructions):
                continue
            if self._redactor.value(start) == start == self.lasting(start):
                return [start]
        return []

    def lasting(self, claim: Any, most: int | None = None) -> Any:
        """Return a claim without values that change, and with texts cut to ``most`` characters."""
        if isinstance(claim, Mapping) and [*claim] == ["$starts"]:
            start = self.lasting(claim["$starts"])
            return start if isinstance(start, Mapping) else claim
        if not isinstance(claim, str):
            return with_parts(claim, lambda part: self.lasting(part, most))
        for pattern in PASSING.finditer(claim):
            if pattern.group() not in self._own_words:
                return _starting(claim[: pattern.start()])
        return claim if most is None or len(claim) <= most else _starting(claim)


def texts_of(turns: Any) -> list[str]:
    """Return the texts that users, models and tools say in a scenario's turns, each once.

    Longer ones are cut to the beginning of their first line. A single plain word is left out:
    instructions may have it by chance.
    """
    texts: dict[str, None] = {}
    if is_list(turns):
        for turn in turns:
            if isinstance(turn, Mapping):
                for key in ("user", "resume", "replies", "tool_results"):
                    for path, text in walk(turn.get(key)):
                        if not isinstance(text, str) or not _NO_TEXTS.isdisjoint(path):
                            continue
                        first = (text.strip().splitlines() or [""])[0][:START_MAX].strip()
                        if len(first) >= _LEAST and not first.isalpha() and "${" not in first:
                            texts[first] = None
    return [*texts]


_NO_TEXTS: Final = {"to", "from", "type", "mode", "latency_ms", "signature", "url"}
"""Keys of lines and results whose values are no texts."""


def words_of(data: Any) -> str:
    """Return all texts in plain data, one a line."""
    if isinstance(data, Mapping):
        return "\n".join(map(words_of, (*data, *data.values())))
    if is_list(data):
        return "\n".join(map(words_of, data))
    return str(data)


def _starting(text: str) -> Any:
    start = text[:START_MAX].rstrip()
    return {"$starts": start} if len(start) >= _LEAST else _ANYTHING


def _shared(text: str, other: str) -> str:
    """Return the common beginning of two texts."""
    indices = (k for k, (left, right) in enumerate(zip(text, other, strict=False)) if left != right)
    return text[: next(indices, min(len(text), len(other)))]


def _without_redacted(claim: Any, redacted: Any) -> Any:
    """Return a claim without the parts that a redactor has replaced."""
    if isinstance(claim, Mapping) and isinstance(redacted, Mapping):
        if [*claim] == ["$starts"] and claim != redacted:
            return _starting(_shared(claim["$starts"], redacted["$starts"]))
        if [*claim] != [*redacted]:
            return _ANYTHING
        return {key: _without_redacted(inner, redacted[key]) for key, inner in claim.items()}
    if is_list(claim) and is_list(redacted):
        return [_without_redacted(item, other) for item, other in zip(claim, redacted, strict=True)]
    if claim == redacted:
        return claim
    if isinstance(claim, str) and isinstance(redacted, str):
        return _starting(_shared(claim, redacted))
    return _ANYTHING


# First claims: a complete set for a turn: agents, contexts, results


STATE_MAX: Final = 300
"""The length of a channel's value up to which it is claimed whole; above, only its shape."""
TEXT_MAX: Final = 60
"""The length of a text within a larger value up to which it is claimed."""
_INSTRUCTIONS: Final = "instructions"


def first_claims(
    view: View, index: int, stable: StableClaims, *, with_contexts: bool = True
) -> dict[str, Any]:
    """Return claims that hold for a turn; empty if it did not finish.

    They contain no secrets. ``with_contexts``: also claim the contexts of code.
    """
    turn = view.turns[index]
    scope = scope_of_turn(turn, index, Expect(), view)
    if not turn.finished or (turn.error is not None and turn.error.type in UNFINISHED):
        return {}
    claims = dict(_claims(scope, stable if with_contexts else None))
    for name in claims.keys() & {"tool_calls", "state"} if scope.pipeline.is_code else ():
        claims[name] = stable.lasting(claims[name])  # Functions ran for real.
    return {
        name: stable.without_secrets(claims[name])
        for name in claims
        if not unobservable(scope, name)
    }


def _claims(scope: Scope, stable: StableClaims | None) -> Iterator[tuple[str, Any]]:
    yield "agents", groups_of(scope.runs)
    if scope.error is not None:
        yield "error", scope.error.type
    elif scope.interrupt is not None:
        yield "interrupt", claim_of(scope.interrupt)
    else:
        yield "reply", claim_of(scope.reply)
    contexts = dict(_contexts(scope, stable))
    if contexts:
        yield "context", contexts
    yield "handoffs", [claim_of_handoff(handoff.fields()) for handoff in scope.handoffs]
    yield "tool_calls", [claim_of_tool_call(handoff.fields()) for handoff in scope.tools]
    updates = dict.fromkeys(name for update in scope.updates for name in update.update)
    state = {name: shape_of(scope.state[name]) for name in updates if name in scope.state}
    if state:
        yield "state", state


def _contexts(scope: Scope, stable: StableClaims | None) -> Iterator[tuple[str, Any]]:
    """Yield the claims on each context; without sections, on its messages."""
    for agent, calls in scope.calls.items():
        before: CallView | None = None
        # Without a number, `tools` are those of all calls.
        is_alike = all(call.context.tools == calls[0].context.tools for call in calls)
        if stable is not None:
            stable = stable.with_other_agents(_instructions_of_others(scope, agent))
        for index, call in enumerate(calls):
            last = before if before is not None and before.run == call.run else None
            if scope.can_observe("sections"):
                claims = dict(_sections(call, goes_on=last is not None))
            elif stable is not None and scope.pipeline.is_code:
                claims = stable.on_messages(call, last)
            else:
                claims = {}
            if claims:
                yield (f"{agent}[{index}]" if index or not is_alike else agent), claims
            before = call


def _instructions_of_others(scope: Scope, agent: str) -> list[str]:
    return [
        message.content
        for name, calls in scope.calls.items()
        if name != agent
        for call in calls
        for message in call.context.messages
        if message.role == "system" and isinstance(message.content, str)
    ]


def _sections(call: CallView, *, goes_on: bool) -> Iterator[tuple[str, Any]]:
    """Yield claims on one context; on a later call of the same run, only on new parts."""
    context = call.context
    if not goes_on:
        yield "sections", context.sections
    for name in context.sections:
        if name == _INSTRUCTIONS or (goes_on and name != "run"):
            continue
        messages = context.section(name)
        claim: Any = [claim_of(message) for message in messages]
        if len(messages) > MESSAGES_MAX or not holds(claim, messages):
            claim = {"$len": len(messages)}
        yield name, claim


def shape_of(value: Any) -> Any:
    """Return a claim on a value: all of a small one; of a large one its shape and small parts."""
    claim = claim_of(value)
    if len(flow(claim)) <= STATE_MAX and holds(claim, value):
        return claim
    return _shape(claim)


def _shape(claim: Any) -> Any:
    if isinstance(claim, Mapping):
        return {key: _shape(inner) for key, inner in claim.items()}
    if isinstance(claim, str) and len(claim) > TEXT_MAX:
        return {"$starts": claim[: word_end(claim, TEXT_MAX)].rstrip()}
    if is_list(claim) and len(claim) > 1:
        return {"$len": len(claim)}
    return claim


def common(claims: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the claims that several sets share, for rows of one table."""
    first, *others = claims
    fields: dict[str, Any] = {}
    for key, claim in first.items():
        if any(key not in other for other in others):
            continue
        if all(other[key] == claim for other in others):
            fields[key] = claim
        elif isinstance(claim, Mapping) and not any(name.startswith("$") for name in claim):
            inner = common([claim, *(o[key] for o in others if isinstance(o[key], Mapping))])
            if inner and all(isinstance(other[key], Mapping) for other in others):
                fields[key] = inner
    return fields


def parts_of(claims: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each single claim of a turn's: of contexts and state, one for each part."""
    for name, claim in claims.items():
        if name == "context":
            for agent, inner in claim.items():
                for section, value in inner.items():
                    yield {name: {agent: {section: value}}}
        elif name == "state":
            for channel, value in claim.items():
                yield {name: {channel: value}}
        else:
            yield {name: claim}


def claims_on(fact: Fact, turn: TurnView, stable: StableClaims) -> Iterator[dict[str, Any]]:
    """Yield sets of claims for the turn's `expect` that speak of a fact, the usual one first."""
    value = stable.without_secrets(stable.lasting(claim_of(fact.value), WHOLE_MAX))
    match fact.claim:
        case "context":
            yield from _on_context(fact, value)
        case "tools":
            yield {"context": {fact.name: {"tools": {"$has": [fact.value]}}}}
        case "handoffs":
            payload = {fact.key: value} if fact.key else value
            pair = {"from": fact.source, "to": fact.target}
            yield {"handoffs": {"$has": [{**pair, "payload": payload}]}}
        case "state":
            shape = stable.without_secrets(shape_of(fact.value))
            for claim in (shape, value):
                yield {"state": {fact.name: {fact.key: claim} if fact.key else claim}}
        case "agents":
            yield {"agents": groups_of(turn.runs)}
            yield {"handoffs": {"$has": [{"from": fact.source, "to": fact.target}]}}
        case "tool_calls":
            answer = {"args": {fact.key: value}} if fact.key else {"result": value}
            yield {"tool_calls": {"$has": [{"tool": fact.name, **answer}]}}
            yield {"tool_calls": [_call(call, fact, stable) for call in turn.tools]}
        case _:
            yield {"reply": value}


def _on_context(fact: Fact, value: Any) -> Iterator[dict[str, Any]]:
    assert isinstance(fact.value, Message)
    yield {"context": {fact.name: {"includes": [value]}}}
    if fact.section:
        yield {"context": {fact.name: {fact.section: {"$len": fact.size}}}}


def _call(call: Any, fact: Fact, stable: StableClaims) -> Mapping[str, Any]:
    fields = {"tool": call.tool}
    if call.tool == fact.name:
        key = "args" if fact.key else "result"
        fields[key] = stable.without_secrets(stable.lasting(claim_of(getattr(call, key))))
    return fields
