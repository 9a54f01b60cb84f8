"""Names for agents that say nothing of themselves, and rules that tell their calls apart. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from simkit.adapters.attribution import system_of
from simkit.providers.values import ParsedRequest

NOBODY: Final = "assistant"
"""An agent without instructions."""
WORDS_MAX: Final = 4
"""Words of which a name is made."""
HEAD_MAX: Final = 60
"""Characters of a rule that is proposed, if these tell agents apart."""
_ROLE: Final = re.compile(
    r"(?i:you are|you're|you act as|act as|your role is|your job is)\s+(?i:an|a|the|our)?\s*"
    r"(?P<role>[^\W_][\w'-]*(?:\s+(?!(?i:of|for|who|that|which|in|at|on|with|and|to|from)\b)"
    r"[^\W_][\w'-]*)*)"
)
_SENTENCE: Final = re.compile(r"[.!?:](?=\s|$)|\n")


class Voice(msgspec.Struct):
    """An agent as its calls show it."""

    name: str
    head: str
    """The first sentence of its instructions."""
    systems: list[str]
    offers: set[str]


def voices_of(calls: Sequence[ParsedRequest]) -> tuple[list[Voice], list[Voice]]:
    """Return the agents that made these calls, and the agent of each call.

    Calls are of one agent if their instructions begin with the same sentence, and they are not
    offered tools of which none is the same.
    """
    voices: list[Voice] = []
    owners = []
    for call in calls:
        system = system_of(call)
        head = _head(system)
        offers = {offer.name for offer in call.offers}
        voice = next(
            (
                candidate
                for candidate in voices
                if candidate.head == head and _fits(candidate, offers)
            ),
            None,
        )
        if voice is None:
            voice = Voice(_free(proposed_name(system), voices), head, [], set())
            voices.append(voice)
        voice.systems.append(system)
        voice.offers |= offers
        owners.append(voice)
    return voices, owners


def proposed_name(system: str) -> str:
    """Return a name for an agent: ``You are the triage agent of …`` is ``triage_agent``."""
    role = _ROLE.search(_head(system))
    words = re.findall(r"[a-z0-9]+", (role["role"] if role else _head(system)).lower())
    return "_".join(words[:WORDS_MAX]) or NOBODY


def rule_of(voice: Voice, voices: Sequence[Voice]) -> dict[str, Any]:
    """Return the smallest rule that holds of an agent's calls and of no other's."""
    others = [
        system for candidate in voices if candidate is not voice for system in candidate.systems
    ]
    shared = _shared(voice.systems)
    if not shared:
        return {"system": ""} if not any(voice.systems) else _by_tools(voice, voices, {})
    for start in _starts(shared):
        if not any(system.startswith(start) for system in others):
            return {"system": {"$starts": start}}
    if len(set(voice.systems)) == 1 and shared not in others:
        return {"system": {"$eq": shared}}
    return _by_tools(voice, voices, {"system": {"$starts": voice.head[:HEAD_MAX]}})


def _starts(shared: str) -> list[str]:
    """Return beginnings of instructions by which to know them, the nicest first."""
    role = _ROLE.match(shared)
    words = [match.end() for match in re.finditer(r"\S+", shared)]
    whole = [shared[:end] for end in words if end > min(HEAD_MAX, len(_head(shared)))]
    return [*([role.group()] if role else []), _head(shared)[:HEAD_MAX].rstrip(), *whole]


def _by_tools(voice: Voice, voices: Sequence[Voice], rule: dict[str, Any]) -> dict[str, Any]:
    used = {name for candidate in voices if candidate is not voice for name in candidate.offers}
    own = sorted(voice.offers - used)
    return {**rule, "tools": {"$has": own[:1]} if own else []}


def _shared(systems: Sequence[str]) -> str:
    """Return the text with which all begin."""
    first, last = min(systems), max(systems)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((place for place, (a, b) in pairs if a != b), len(first))]


def _fits(voice: Voice, offers: set[str]) -> bool:
    return not offers or not voice.offers or bool(offers & voice.offers)


def _head(system: str) -> str:
    text = system.strip()
    end = _SENTENCE.search(text)
    return text[: end.end() if end else len(text)].rstrip("\n")


def _free(name: str, voices: Sequence[Voice]) -> str:
    used = {voice.name for voice in voices}
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate
