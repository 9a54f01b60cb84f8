"""Explanations of messages, their usual causes and their fixes: every catalogue in one form.

The messages of errors and of failed claims are listed here, those of lints and of validation in
their own catalogues. `simkit explain` prints them, and the page on troubleshooting is made from
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.text import near
from simkit.spec.lint_catalogue import LINTS, entries_in
from simkit.spec.validation_catalogue import CODES, REFUSALS


class ErrorEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One kind of message: how it is worded (``…`` stands for what differs), and what to do."""

    message: str
    rule: str
    fix: str
    cause: str


_MESSAGES: Final = entries_in("messages.yaml", dict[str, dict[str, ErrorEntry]])

ERRORS: Final[Mapping[str, ErrorEntry]] = _MESSAGES["errors"]
"""Errors by the name of their type, under which `error:` claims those of the pipeline."""

CLAIMS: Final[Mapping[str, ErrorEntry]] = _MESSAGES["claims"]
"""Findings of claims, by a name for their message: their id is CLAIM for all of them."""


Kind = Literal["claim", "lint", "validation", "error"]

SEVERITIES: Final = MappingProxyType({"E": "error", "W": "warning"})


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One message: what should hold, why it does not, and what to do."""

    id: str
    """``HND-12``, ``ReplyMissing``; a claim's message has a name alone."""
    kind: Kind
    name: str = ""
    severity: str = ""
    """``error`` or ``warning`` of lints and of what validation finds."""
    message: str = ""
    """How it is worded, ``…`` for what differs; lints are known by their id."""
    rule: str
    cause: str
    fix: str
    fix_in_code: str = ""
    can_be_turned_off: bool = False

    @property
    def title(self) -> str:
        """Return ``HND-12 context-ignored``."""
        return f"{self.id} {self.name}".rstrip()

    def fits(self, words: str) -> bool:
        """Return whether a printed message is worded so."""
        parts = [part.strip() for part in self.message.split("…")]
        pattern = ".*?".join(re.escape(part) for part in parts if part)
        return bool(pattern and re.search(pattern, words))


@cache
def explanations() -> MappingProxyType[str, Explanation]:
    """Return every explanation by its id, those of claims first."""
    return MappingProxyType({explanation.id: explanation for explanation in _all()})


def _all() -> Iterator[Explanation]:
    for name, claim in CLAIMS.items():
        yield Explanation(id=name, kind="claim", **msgspec.structs.asdict(claim))
    for code, entry in (*LINTS.items(), *CODES.items()):
        fields = {**msgspec.structs.asdict(entry), "severity": SEVERITIES[entry.severity]}
        kind: Kind = "lint" if code in LINTS else "validation"
        yield Explanation(id=code, kind=kind, can_be_turned_off=code not in REFUSALS, **fields)
    for name, error in ERRORS.items():
        yield Explanation(id=name, kind="error", **msgspec.structs.asdict(error))


def explanation_of(words: str) -> Explanation:
    """Return what is known under an id, a name (``context-ignored``) or by a printed message.

    Raises SimkitError that names the nearest id for words that nothing is known of.
    """
    known = explanations()
    words = " ".join(words.split())
    spelled = {
        name.lower(): explanation
        for explanation in known.values()
        for name in (explanation.id, explanation.name)
    }
    if words and words.lower() in spelled:
        return spelled[words.lower()]
    for id_inside in re.findall(r"\b[A-Z]{3}-\d\d\b|\b[A-Z][A-Za-z]+\b", words):
        if id_inside in known:
            return known[id_inside]
    fitting = [explanation for explanation in known.values() if explanation.fits(words)]
    if fitting:
        return max(fitting, key=lambda explanation: len(explanation.message.replace("…", "")))
    nearest = near(words, [name for name in spelled if name])
    hint = f"\n  did you mean `{spelled[nearest].id}`?" if nearest else ""
    raise SimkitError(
        f"nothing is known under `{words}`{hint}\n"
        "  `simkit explain` lists every id. A message is found by its own words, too: copy it "
        "whole, in quotes.\n"
        "  Errors of a file end with their own advice; `simkit validate FILE` prints their ids."
    )
