"""Which agent a model call belongs to: pure, from the request and the scenario's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from simkit.errors import CallUnattributed
from simkit.matching import Matcher, compile_matcher
from simkit.scenario.apps import AgentRule
from simkit.wire.http import HttpRequest, header
from simkit.wire.values import Asked

AGENT_HEADER: Final = "x-simkit-agent"
"""Names the agent where code can say no more than a header."""
_SHOWN: Final = 200
_PROPOSED: Final = 60


class Attribution:
    """The rules of one scenario, compiled."""

    def __init__(self, rules: Mapping[str, AgentRule]) -> None:
        self._rules: dict[str, list[tuple[str, Matcher]]] = {
            agent: [(key, compile_matcher(m)) for key, m in rule.matchers().items()]
            for agent, rule in rules.items()
        }
        self.has_matchers = any(self._rules.values())
        """Whether a rule says by a request whose it is."""

    def agent_of(self, asked: Asked, request: HttpRequest, known: str = "") -> str:
        """Returns the agent by header or rule, else the one that a framework knows (``known``);
        raises CallUnattributed where that is not one."""
        named = header(request.headers, AGENT_HEADER)
        if named:
            return named
        root = _root(asked, request) if self.has_matchers or not known else {}
        found = [
            agent
            for agent, matchers in self._rules.items()
            if matchers and all(matcher.holds(root[key]) for key, matcher in matchers)
        ]
        if len(found) == 1:
            return found[0]
        if known and (not found or known in found):
            return known
        raise CallUnattributed(_several(found, asked) if found else self._nobody(asked, request))

    def _nobody(self, asked: Asked, request: HttpRequest) -> str:
        system = system_of(asked)
        lines = [
            f"a model call belongs to no agent: {request.method} {request.url}, "
            f"model {asked.model or 'unknown'}",
            *_shown(asked),
        ]
        if self._rules:
            lines.append(f"The rules know: {', '.join(self._rules)}.")
        lines.append(
            'Say whose it is with `with simkit.agent("name"):` around the call, or by a rule in '
            "the scenario:"
        )
        lines += rule_lines("name", system)
        return "\n".join(lines)


def _several(found: list[str], asked: Asked) -> str:
    names = ", ".join(f"`{name}`" for name in found)
    return "\n".join(
        [
            f"a model call fits the attribution rules of {names}: make them narrower",
            *_shown(asked),
        ]
    )


def _shown(asked: Asked) -> list[str]:
    shown = [m for m in asked.messages if m.role == "system"][:1]
    shown += [m for m in asked.messages if m.role == "user"][-1:]
    return [f"  {m.role}: {_short(m.content, _SHOWN)}" for m in shown]


def rule_lines(agent: str, system: str) -> list[str]:
    """Returns the YAML of a rule that would hold of such a call."""
    first = system.strip().partition("\n")[0]
    if not first:
        return ["  agents:", f"    {agent}: {{messages: {{$has: [{{user: …}}]}}}}"]
    shown = first[:_PROPOSED]
    operator = "$eq" if shown == system else "$starts" if system.startswith(shown) else "$contains"
    # In a scenario, `${` begins a reference.
    value = msgspec.json.encode(shown).decode().replace("${", "$${")
    return ["  agents:", f"    {agent}: {{system: {{{operator}: {value}}}}}"]


def system_of(asked: Asked) -> str:
    """Returns the system instructions as one text."""
    return "\n\n".join(m.content for m in asked.messages if m.role == "system")


def _root(asked: Asked, request: HttpRequest) -> dict[str, Any]:
    return {
        "system": system_of(asked),
        "messages": asked.messages,
        "tools": [offer.name for offer in asked.offers],
        "model": asked.model,
        "settings": dict(asked.settings),
        "header": {name.lower(): value for name, value in request.headers},
    }


def _short(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
