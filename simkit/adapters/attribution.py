"""Attribution of model calls to agents, from requests and rules; proposed names and rules. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import islice
from typing import Any, Final

import msgspec

from simkit.core.errors import CallUnattributed
from simkit.core.text import PASSING, short, word_end
from simkit.language.matching import Matcher, compile_matcher
from simkit.providers.http import HttpRequest, header
from simkit.providers.values import ParsedRequest
from simkit.spec.scenario.apps import AgentRule
from simkit.spec.scenario.writing import flow

AGENT_HEADER: Final = "x-simkit-agent"
"""Header with the agent's name, for code that can only set headers."""
OF_NOBODY: Final = "a model call belongs to no agent"
"""The beginning of the error for a call that no rule fits."""
_SHOWN_MAX: Final = 200
_PROPOSED: Final = 60
_LEAST: Final = 4
"""The least length of a text that may identify an agent."""
_TELLING: Final = 16
"""The length of a text that mostly identifies one."""
_COMMON: Final = 3
"""The length of a common part that is no coincidence."""
_ALIKE: Final = 0.6
"""The share of a rule's text that makes a near match."""
_NUMBERED: Final = re.compile(r"[\w-]*\d{3,}[\w-]*")
"""Numbers of orders, customers and the like."""


class Attribution:
    """The compiled rules of one scenario."""

    def __init__(
        self,
        rules: Mapping[str, AgentRule],
        fallback: str = "",
        waiting: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        """``fallback`` is the agent of calls of which nothing says whose they are.

        ``waiting`` returns the agents whose reply lines no call has used.
        """
        self._fallback, self._waiting = fallback, waiting
        self._rules: dict[str, list[tuple[str, Matcher]]] = {
            agent: [(key, compile_matcher(m)) for key, m in rule.matchers().items()]
            for agent, rule in rules.items()
        }
        self.has_matchers = any(self._rules.values())
        """Whether a rule matches requests."""
        self._rule_sources = {agent: rule.matchers() for agent, rule in rules.items()}
        self._agents_met: dict[str, None] = {}
        """The instructions of calls that belong to agents."""

    def agent_of(self, model_request: ParsedRequest, request: HttpRequest, known: str = "") -> str:
        """Return the agent by header or rule, else ``known`` from a framework.

        Raise CallUnattributed if there is not exactly one.
        """
        named = header(request.headers, AGENT_HEADER)
        if named:
            return named
        if not self.has_matchers and known:
            return known
        root = _root(model_request, request)
        agents = [
            agent
            for agent, matchers in self._rules.items()
            if matchers and all(matcher.holds(root[key]) for key, matcher in matchers)
        ]
        agent = _chosen(agents, known, self._fallback)
        if not agent:
            problem = (
                _several(agents, model_request)
                if agents
                else self._nobody(model_request, request, root)
            )
            raise CallUnattributed(problem)
        self._agents_met[root["system"]] = None
        return agent

    def _nobody(
        self, model_request: ParsedRequest, request: HttpRequest, root: Mapping[str, Any]
    ) -> str:
        system = root["system"]
        lines = [
            f"{OF_NOBODY}: {request.method} {request.url}, "
            f"model {model_request.model or 'unknown'}",
            *_prompt_lines(model_request),
        ]
        if self._rules:
            lines.append(f"The rules know: {', '.join(self._rules)}.")
        lines += self._nearest(root)
        shorter_rule = self._rule_inside(system)
        if shorter_rule:
            agent, text = shorter_rule
            rule = f"system: {{{_operator(text, system)}: {flow(text)}}}"
            lines += [
                "That rule wants these instructions alone, and there are more. Write:",
                "  agents:",
                f"    {agent}: {{{rule}}}",
            ]
            return "\n".join(lines)
        lines.append(
            'Name its agent with `with simkit.agent("name"):` around the call, or by a rule in '
            "the scenario:"
        )
        # Only one agent has no rule: it is meant.
        rule_names = [agent for agent in self._rules if self._rules[agent]]
        free = [agent for agent in self._waiting() if agent not in rule_names]
        name = free[0] if len(free) == 1 else "name"
        user = next((m.content for m in model_request.messages if m.role == "user"), "")
        lines += rule_lines(name, system, [*self._agents_met], root["tools"], user)
        return "\n".join(lines)

    def _rule_inside(self, system: str) -> tuple[str, str] | None:
        """Return the one agent, and its rule's text, that is a part of the instructions."""
        parts = []
        for agent, rule in self._rule_sources.items():
            text = rule.get("system") if len(rule) == 1 else None
            text = text.get("$eq") if isinstance(text, Mapping) else text
            if isinstance(text, str) and text and text in system:
                parts.append((agent, text))
        return parts[0] if len(parts) == 1 else None

    def _nearest(self, root: Mapping[str, Any]) -> list[str]:
        """Return the rule that nearly fits a call, with its mismatches and the actual values."""
        best, nearest = 0.0, []
        for agent, matchers in self._rules.items():
            why = [
                f"  {key} is {miss.actual}"
                for key, matcher in matchers
                for miss in islice(matcher.mismatches(root[key]), 1)
            ]
            misses = [key for key, matcher in matchers if not matcher.holds(root[key])]
            if not misses:
                continue
            share = (len(matchers) - len(misses)) / len(matchers)
            alike = max(
                (_alike(self._rule_sources[agent][key], root[key]) for key in misses), default=0
            )
            if max(share, alike if alike >= _ALIKE else 0) > best:
                best = max(share, alike)
                mismatch_text = ", ".join(
                    f"{key}: {flow(self._rule_sources[agent][key])}" for key in misses
                )
                nearest = [f"Nearly fits: the rule of `{agent}`, but for `{mismatch_text}`.", *why]
        return nearest


def _chosen(agents: Sequence[str], known: str, fallback: str) -> str:
    """Return the agent of a request that the rules of ``agents`` fit; empty if that is not clear.

    ``known`` is the framework's agent, ``fallback`` the agent of a request that no rule fits.
    """
    if len(agents) == 1:
        return agents[0]
    if known and (not agents or known in agents):
        return known
    return "" if agents else fallback


def _several(agents: list[str], model_request: ParsedRequest) -> str:
    names = ", ".join(f"`{name}`" for name in agents)
    return "\n".join(
        [
            f"a model call fits the attribution rules of {names}: make them narrower",
            *_prompt_lines(model_request),
        ]
    )


def _prompt_lines(model_request: ParsedRequest) -> list[str]:
    prompts = [m for m in model_request.messages if m.role == "system"][:1]
    prompts += [m for m in model_request.messages if m.role == "user"][-1:]
    return [f"  {m.role}: {short(m.content, _SHOWN_MAX)}" for m in prompts]


def rule_lines(
    agent: str, system: str, others: Sequence[str] = (), tools: Sequence[str] = (), user: str = ""
) -> list[str]:
    """Return the YAML of a rule that fits such a call, and none of ``others``.

    It contains no date and no id, because they differ in the next call. If the text does not
    distinguish agents, the rule includes the ``tools`` that the call offers. A call without
    instructions is known by the beginning of its first message, ``user``.
    """
    pieces = sorted(_lasting(system), key=lambda piece: len(piece) < min(_TELLING, len(system)))
    if not pieces:
        start = next(_lasting(user), user)
        says = flow({"$starts": start} if start else {"$any": True}).replace("${", "$${")
        return ["  agents:", f"    {agent}: {{messages: {{$has: [{{user: {says}}}]}}}}"]
    own = (piece for piece in pieces if not any(_fits(piece, system, text) for text in others))
    line = next(own, None)
    tools_part = "" if line is not None or not tools else f", tools: {{$has: [{tools[0]}]}}"
    line = pieces[0] if line is None else line
    # In a scenario, `${` begins a reference.
    value = msgspec.json.encode(line).decode().replace("${", "$${")
    rule = f"system: {{{_operator(line, system)}: {value}}}{tools_part}"
    return ["  agents:", f"    {agent}: {{{rule}}}"]


def _operator(piece: str, system: str) -> str:
    return "$eq" if piece == system else "$starts" if system.startswith(piece) else "$contains"


def _fits(piece: str, system: str, other: str) -> bool:
    """Return whether a rule with a piece of instructions would also fit other instructions."""
    operator = _operator(piece, system)
    if operator == "$eq":
        return piece == other
    return other.startswith(piece) if operator == "$starts" else piece in other


def _lasting(system: str) -> Iterator[str]:
    """Yield pieces of instructions that will not change, the first ones first."""
    for line in system.strip().split("\n"):
        changing_spans = [
            m.span() for pattern in (PASSING, _NUMBERED) for m in pattern.finditer(line)
        ]
        lo = 0
        for start, end in [*sorted(changing_spans), (len(line), len(line))]:
            piece = line[lo : min(start, word_end(line, lo + _PROPOSED))]
            piece = piece if start == len(line) and lo == 0 else piece.strip(" .,;:")
            if len(piece) >= _LEAST or (piece and piece == system):
                yield piece
            lo = max(lo, end)


def _alike(expected: Any, actual: Any) -> float:
    """Return the share of a matcher's text that occurs in the actual value."""
    text = expected if isinstance(expected, str) else ""
    if isinstance(expected, Mapping) and len(expected) == 1:
        (inner,) = expected.values()
        text = inner if isinstance(inner, str) else ""
    if not text or not isinstance(actual, str):
        return 0.0
    same = SequenceMatcher(None, text, actual[: 2 * len(text)], autojunk=False)
    return sum(b.size for b in same.get_matching_blocks() if b.size >= _COMMON) / len(text)


def system_of(model_request: ParsedRequest) -> str:
    """Return the system instructions as one text."""
    return "\n\n".join(m.content for m in model_request.messages if m.role == "system")


def _root(model_request: ParsedRequest, request: HttpRequest) -> dict[str, Any]:
    return {
        "system": system_of(model_request),
        "messages": model_request.messages,
        "tools": [offer.name for offer in model_request.offers],
        "model": model_request.model,
        "settings": dict(model_request.settings),
        "header": {name.lower(): value for name, value in request.headers},
    }


# Names for agents without one, and rules that distinguish their calls


NOBODY: Final = "assistant"
"""The name of an agent without instructions."""
WORDS_MAX: Final = 4
"""The number of words in a name."""
HEAD_MAX: Final = 60
"""The length of a proposed rule's text, if it distinguishes the agents."""
_ROLE: Final = re.compile(
    r"(?i:you are|you're|you act as|act as|your role is|your job is)\s+(?i:an|a|the|our)?\s*"
    r"(?P<role>[^\W_][\w'-]*(?:\s+(?!(?i:of|for|who|that|which|in|at|on|with|and|to|from)\b)"
    r"[^\W_][\w'-]*)*)"
)
_HEADING: Final = re.compile(r"\s*(?:#{1,6} .*|<[^<>]+>|\*\*[^*]+\*\*:?|[-=*_ ]*)\s*")
"""A line that instructions of several agents share: ``# IDENTITY``, ``< Role >``, ``**Task**``."""
_BULLET: Final = re.compile(r"\s*(?:[-*•]|\d+[.)])\s+")
_SENTENCE: Final = re.compile(r"[.!?:](?=\s|$)|\n")


class PromptSignature(msgspec.Struct):
    """An agent as its calls show it."""

    name: str
    head: str
    """The first sentence of its instructions."""
    systems: list[str]
    offers: set[str]


def signatures_of(
    calls: Sequence[ParsedRequest],
) -> tuple[list[PromptSignature], list[PromptSignature]]:
    """Return the agents of these calls, and the agent of each call.

    Calls belong to one agent if their instructions begin with the same sentence, and their offered
    tools, if any, overlap.
    """
    signatures: list[PromptSignature] = []
    owners = []
    for call in calls:
        system = system_of(call)
        head = _head(_without_headings(system))
        offers = {offer.name for offer in call.offers}
        signature = next(
            (
                candidate
                for candidate in signatures
                if candidate.head == head
                and (not offers or not candidate.offers or offers & candidate.offers)
            ),
            None,
        )
        if signature is None:
            signature = PromptSignature(_free(proposed_name(system), signatures), head, [], set())
            signatures.append(signature)
        signature.systems.append(system)
        signature.offers |= offers
        owners.append(signature)
    return signatures, owners


def proposed_name(system: str) -> str:
    """Return a name for an agent: ``You are the triage agent of …`` gives ``triage_agent``."""
    head = _head(_without_headings(system))
    role = _ROLE.search(head)
    words = re.findall(r"[^\W_]+", (role["role"] if role else head).lower())
    return "_".join(words[:WORDS_MAX]) or NOBODY


def _other_systems(signature: PromptSignature, signatures: Sequence[PromptSignature]) -> list[str]:
    return [
        system
        for candidate in signatures
        if candidate is not signature
        for system in candidate.systems
    ]


def rule_of(signature: PromptSignature, signatures: Sequence[PromptSignature]) -> dict[str, Any]:
    """Return the smallest rule that fits an agent's calls and no others."""
    others = _other_systems(signature, signatures)
    shared = _shared(signature.systems)
    own = signature.head
    if own and own not in shared:  # The headings before it differ: a date.
        rule: dict[str, Any] = {"system": {"$contains": own}}
        is_shared = any(own in system for system in others)
        return _by_tools(signature, signatures, rule) if is_shared else rule
    if not shared:
        return (
            {"system": ""} if not any(signature.systems) else _by_tools(signature, signatures, {})
        )
    # Instructions in triple quotes begin with an empty line.
    blank = shared[: len(shared) - len(shared.lstrip())]
    for start in (f"{blank}{start}" for start in _starts(shared.lstrip())):
        if not any(system.startswith(start) for system in others):
            return {"system": {"$starts": start}}
    if len(set(signature.systems)) == 1 and shared not in others:
        return {"system": {"$eq": shared}}
    start = f"{blank}{_head(shared.lstrip())}"
    return _by_tools(signature, signatures, {"system": {"$starts": start}})


def _starts(shared: str) -> list[str]:
    """Return beginnings of instructions that identify them, the best first."""
    role = _ROLE.match(shared)
    words = [match.end() for match in re.finditer(r"\S+", shared)]
    whole = [shared[:end] for end in words if end > len(_head(shared))]
    return [*([role.group()] if role else []), _head(shared), *whole]


def _by_tools(
    signature: PromptSignature, signatures: Sequence[PromptSignature], rule: dict[str, Any]
) -> dict[str, Any]:
    used = {
        name for candidate in signatures if candidate is not signature for name in candidate.offers
    }
    own = sorted(signature.offers - used)
    return {**rule, "tools": {"$has": own[:1]} if own else []}


def _shared(systems: Sequence[str]) -> str:
    """Return the common beginning."""
    first, last = min(systems), max(systems)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((place for place, (a, b) in pairs if a != b), len(first))]


def _without_headings(system: str) -> str:
    """Return instructions from their first line that is no heading; all of them if all are."""
    lines = system.strip().split("\n")
    first = (
        k for k, line in enumerate(lines) if _ROLE.search(line) or not _HEADING.fullmatch(line)
    )
    return _BULLET.sub("", "\n".join(lines[next(first, 0) :]), count=1)


def _head(system: str) -> str:
    """Return the first sentence, of a long one as many words as a rule has."""
    text = system.strip()
    end = _SENTENCE.search(text)
    text = text[: end.end() if end else len(text)]
    return text[: word_end(text, HEAD_MAX)].rstrip()


def _free(name: str, signatures: Sequence[PromptSignature]) -> str:
    used = {signature.name for signature in signatures}
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
