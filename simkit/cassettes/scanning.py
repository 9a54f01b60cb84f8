"""Secrets in cassettes that exist, whoever recorded them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from simkit.cassettes.dialects import Misfit, interactions_of
from simkit.cassettes.reading import Text, read
from simkit.cassettes.redacting import redacted_body, redacted_response
from simkit.cassettes.values import Interaction, place
from simkit.errors import CassetteInvalid
from simkit.redact import Redactor
from simkit.wire.http import Headers

_PLACEHOLDER: Final = re.compile(r"\[redacted:(\w+)\]")
_MASKED: Final = re.compile(
    r"\W*(?:redacted|filtered|removed|masked|dummy|fake|x{3,}|)\W*", re.IGNORECASE
)
"""What other recorders put in the place of a secret header."""


class Leak(msgspec.Struct, frozen=True, gc=False):
    """A secret that stands in a file; it is not shown."""

    file: str
    line: int
    """0 where it is not known."""
    at: str
    """``interactions[3].request.headers.authorization``; empty for a place in the text alone."""
    rule: str
    """What knows it: a name, a shape, or ``env`` for the value of a variable."""


def scan(paths: Iterable[str | Path], redactor: Redactor) -> Iterator[Leak]:
    """Yields the secrets in files; raises CassetteInvalid for a file that is no text at all."""
    for path in paths:
        text = Text(Path(path), read(Path(path)))
        told: set[tuple[int, str]] = set()
        lists = "interactions"
        try:
            tree = text.tree()
            lists = lists if isinstance(tree, dict) and lists in tree else "requests"
            interactions = list(interactions_of(tree))
        except (CassetteInvalid, Misfit):
            # What cannot be read as a cassette is looked through as a text.
            interactions = []
        starts = text.lines((lists, number) for number in range(len(interactions)))
        for number, item in enumerate(interactions):
            for where, rule in _leaks(item, redactor):
                told.add((number, rule))
                yield Leak(str(path), starts[number], f"{place(number)}.{where}", rule)
        for offset, rule in redactor.found(text.text, by_name=not interactions):
            line = text.text.count("\n", 0, offset) + 1
            number = sum(start <= line for start in starts) - 1
            if (number, rule) not in told:
                yield Leak(str(path), line, "", rule)


def _leaks(item: Interaction, redactor: Redactor) -> Iterator[tuple[str, str]]:
    asked, answered = item.request, item.response
    for rule in _rules(asked.url, redactor.url(asked.url)):
        yield "request.uri", rule
    yield from _header_leaks("request", asked.headers, redactor)
    for rule in _rules(_text(asked.body), _text(redacted_body(asked.body, redactor))):
        yield "request.body", rule
    yield from _header_leaks("response", answered.headers, redactor)
    after = redacted_response(answered, redactor).body
    for rule in _rules(_text(answered.body), _text(after)):
        yield "response.body", rule


def _header_leaks(part: str, headers: Headers, redactor: Redactor) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        if _MASKED.fullmatch(value):
            continue
        for rule in _rules(value, redactor.value({name: value}).get(name, "")):
            yield f"{part}.headers.{name.lower()}", rule


def _rules(before: str, after: str) -> list[str]:
    """Returns the rules that replaced something, each once."""
    if before == after:
        return []
    there = Counter(_PLACEHOLDER.findall(before))
    return sorted(Counter(_PLACEHOLDER.findall(after)) - there)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
