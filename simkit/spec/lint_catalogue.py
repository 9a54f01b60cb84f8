"""Catalogues of lints and of findings of `simkit validate`, and explanations of messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, TypeVar

import msgspec

from simkit.core.errors import SimkitError
from simkit.core.text import near

T = TypeVar("T")


class LintEntry(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """One lint in the catalogue and the reports."""

    severity: Literal["E", "W"]
    """``E`` fails the scenario, ``W`` is a warning."""
    name: str
    rule: str
    fix: str
    fix_in_code: str = ""
    """The advice if the pipeline is code; empty if ``fix`` fits code too."""
    cause: str = ""
    """Why it usually happens."""
    of_application: bool = False
    """Whether its warnings are about what the application does, whatever models answer."""

    def advice(self, is_code: bool) -> str:
        """Return what to do, for a pipeline that is code or for a declared one."""
        return (self.fix_in_code if is_code else "") or self.fix


def entries_in(file: str, part: type[T]) -> T:
    """Return the entries of a YAML file of this package."""
    return msgspec.yaml.decode(Path(__file__).with_name(file).read_bytes(), type=part)


LINTS: Final[Mapping[str, LintEntry]] = entries_in("lints.yaml", dict[str, LintEntry])

ADVICE: Final = entries_in("advice.yaml", dict[str, dict[str, str]])
"""Kind to the texts that messages add, by key or word."""

PREFIX: Final = "VAL-"
"""The beginning of the codes of ``simkit validate``."""

_PARTS: Final = entries_in("validation.yaml", dict[str, dict[str, LintEntry]])

REFUSALS: Final[Mapping[str, LintEntry]] = _PARTS["refusals"]
"""Errors that keep a file from running. They cannot be turned off."""

FINDINGS: Final[Mapping[str, LintEntry]] = _PARTS["findings"]
"""Flaws of files that could run. A file turns one off with a reason, under ``lints``."""

CODES: Final[Mapping[str, LintEntry]] = {**REFUSALS, **FINDINGS}


# Explanations: usual causes and fixes, every catalogue in one form


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

    @property
    def words(self) -> str:
        """Return all its texts, in small letters."""
        return " ".join((self.message, self.rule, self.cause, self.fix)).lower()

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
        del fields["of_application"]
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
    ids = re.findall(r"\b[A-Z]{3}-\d\d\b|\b[A-Z][A-Za-z]+\b", words)
    if inside := next(filter(known.__contains__, ids), ""):
        return known[inside]
    similar = _similar(words, known.values())
    if len(similar) == 1:
        return similar[0]
    nearest = near(words, [name for name in spelled if name])
    hint = f"\n  did you mean `{spelled[nearest].id}`?" if nearest else ""
    if similar:
        hint = f"\n  These have such words: {', '.join(each.id for each in similar)}."
    raise SimkitError(
        f"nothing is known under `{words}`{hint}\n"
        "  `simkit explain` lists every id. A message is found by its own words, too.\n"
        "  Errors of a file end with their own advice; `simkit validate FILE` prints their ids."
    )


def _similar(words: str, every: Collection[Explanation]) -> list[Explanation]:
    """Return the explanation whose message is worded so, or else those that have the words."""
    fitting = [explanation for explanation in every if explanation.fits(words)]
    if fitting:
        return [max(fitting, key=lambda explanation: len(explanation.message.replace("…", "")))]
    return [each for each in every if words and words.lower() in each.words]
