"""Names for agents without one, and rules that distinguish their calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from simkit.adapters.attribution import system_of
from simkit.providers.values import ParsedRequest

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
_SENTENCE: Final = re.compile(r"[.!?:](?=\s|$)|\n")


class Voice(msgspec.Struct):
    """An agent as its calls show it."""

    name: str
    head: str
    """The first sentence of its instructions."""
    systems: list[str]
    offers: set[str]


def voices_of(calls: Sequence[ParsedRequest]) -> tuple[list[Voice], list[Voice]]:
    """Return the agents of these calls, and the agent of each call.

    Calls belong to one agent if their instructions begin with the same sentence, and their offered
    tools, if any, overlap.
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
    """Return a name for an agent: ``You are the triage agent of …`` gives ``triage_agent``."""
    role = _ROLE.search(_head(system))
    words = re.findall(r"[a-z0-9]+", (role["role"] if role else _head(system)).lower())
    return "_".join(words[:WORDS_MAX]) or NOBODY


def rule_of(voice: Voice, voices: Sequence[Voice]) -> dict[str, Any]:
    """Return the smallest rule that fits an agent's calls and no others."""
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
    """Return beginnings of instructions that identify them, the best first."""
    role = _ROLE.match(shared)
    words = [match.end() for match in re.finditer(r"\S+", shared)]
    whole = [shared[:end] for end in words if end > min(HEAD_MAX, len(_head(shared)))]
    return [*([role.group()] if role else []), _head(shared)[:HEAD_MAX].rstrip(), *whole]


def _by_tools(voice: Voice, voices: Sequence[Voice], rule: dict[str, Any]) -> dict[str, Any]:
    used = {name for candidate in voices if candidate is not voice for name in candidate.offers}
    own = sorted(voice.offers - used)
    return {**rule, "tools": {"$has": own[:1]} if own else []}


def _shared(systems: Sequence[str]) -> str:
    """Return the common beginning."""
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
