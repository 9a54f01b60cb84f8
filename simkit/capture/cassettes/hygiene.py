"""Upkeep of cassettes: those that are unused or old, or that contain secrets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from simkit.capture.cassettes.reading import Text, read
from simkit.capture.cassettes.redacting import redacted_body, redacted_header, redacted_response
from simkit.capture.cassettes.values import Cassette, Interaction, place
from simkit.capture.cassettes.vcrpy_layout import Misfit, in_vcrpy_layout, interactions_of
from simkit.core.errors import CassetteInvalid
from simkit.core.redact import Redactor
from simkit.core.redact.shapes import NAMES
from simkit.providers.http import Headers
from simkit.providers.streams import content_of

_ENDINGS: Final = (".yaml", ".yml", ".json", ".yaml.gz", ".yml.gz", ".json.gz")


def cassettes_in(folder: str | Path) -> list[Path]:
    """Return the cassettes below a folder, by their names, sorted."""
    paths = Path(folder).rglob("*")
    return sorted(
        path
        for path in paths
        if path.name.endswith(_ENDINGS) and not path.name.startswith(".") and path.is_file()
    )


def age_of(cassette: Cassette, today: date) -> tuple[int | None, str]:
    """Return the age of the oldest interaction in days, and its date as it is recorded.

    A cassette without dates, as other recorders write them, has none.
    """
    dates = [(day, item.recorded_at) for item in cassette.interactions if (day := _day(item))]
    day, recorded_at = min(dates, default=(None, ""))
    return None if day is None else max((today - day).days, 0), recorded_at


def _day(item: Interaction) -> date | None:
    try:
        return datetime.fromisoformat(item.recorded_at).date()
    except ValueError:
        return None


# Scan for secrets in existing cassettes, of any recorder


_PLACEHOLDER: Final = re.compile(r"\[redacted:(\w+)\]")
_SAYS_CASSETTE: Final = re.compile(r"^\W*(?:interactions|requests)[\"']?\s*:", re.MULTILINE)
_MASKED: Final = re.compile(
    r"\W*(?:redacted|filtered|removed|masked|dummy|fake|x{3,}|)\W*", re.IGNORECASE
)
"""Placeholders of other recorders for a secret header."""


class Leak(msgspec.Struct, frozen=True, gc=False):
    """A secret in a file; the secret itself is not shown."""

    file: str
    line: int
    """The line; 0 if it is not known."""
    at: str
    """``interactions[3].request.headers.authorization``; empty for a place in the text only."""
    rule: str
    """The rule that found it: a name, a pattern, or ``env`` for the value of a variable."""


class Scanned(msgspec.Struct, frozen=True):
    """The result of scanning one file."""

    leaks: tuple[Leak, ...]
    problem: str = ""
    """Why the file could not be read as a cassette and was scanned as text; else empty."""
    is_cassette: bool = True
    """Whether it is a cassette, or claims to be one: other files may be beside cassettes."""


def scan_file(path: str | Path, redactor: Redactor) -> Scanned:
    """Scan a file with any content; raise CassetteInvalid if it cannot be read."""
    file = Path(path)
    content = read(file)
    try:
        text = Text(file, content)
    except CassetteInvalid as problem:
        whole = content.decode("utf-8", "replace")
        whole_leaks = tuple(
            Leak(str(path), line, "", rule) for line, rule in _matches_in(whole, redactor)
        )
        return Scanned(whole_leaks, str(problem), _says_cassette(whole))
    lists, interactions, scan_problem = "interactions", list[Interaction](), ""
    try:
        tree = text.tree()
        lists = lists if isinstance(tree, dict) and lists in tree else "requests"
        interactions = list(interactions_of(in_vcrpy_layout(tree)))
    except CassetteInvalid as problem:
        scan_problem = str(problem)
    except Misfit as misfit:
        scan_problem = str(text.invalid(misfit.at, misfit.problem))
    secrets = [
        _KnownSecret((lists, number, *steps), f"{place(number)}.{'.'.join(steps).lower()}", rule)
        for number, item in enumerate(interactions)
        for steps, rule in _leaks(item, redactor)
    ]
    # In a cassette's text, names match by chance, because quotes belong to another format.
    by_name = set(NAMES) if interactions else set[str]()
    leaks = _placed(str(path), text, secrets, _matches_in(text.text, redactor), by_name)
    sorted_leaks = tuple(sorted(leaks, key=lambda leak: leak.line))
    return Scanned(sorted_leaks, scan_problem, not scan_problem or _says_cassette(text.text))


def _matches_in(text: str, redactor: Redactor) -> list[tuple[int, str]]:
    return [(text.count("\n", 0, offset) + 1, rule) for offset, rule in redactor.spans_in(text)]


def _says_cassette(text: str) -> bool:
    return not text.strip("\0 \n") or _SAYS_CASSETTE.search(text) is not None


class _KnownSecret(msgspec.Struct, frozen=True, gc=False):
    """A secret in an interaction's field."""

    steps: tuple[str | int, ...]
    at: str
    rule: str


def _placed(
    path: str,
    text: Text,
    known: list[_KnownSecret],
    matches: list[tuple[int, str]],
    by_name: set[str],
) -> Iterator[Leak]:
    """Yield each secret at the line that shows it, or at the line of its field.

    If a secret of a field is known, a match in that field is the same secret, whatever rule found
    it.
    """
    unplaced, covered = list(matches), set[int]()
    for leak, (first, last) in zip(known, text.extents(k.steps for k in known), strict=True):
        inside = [hit for hit in unplaced if first <= hit[0] <= last]
        match = next((hit for hit in inside if hit[1] == leak.rule), inside[0] if inside else None)
        if match is not None:
            unplaced.remove(match)
        covered.update(range(first, last + 1))
        yield Leak(path, match[0] if match else first, leak.at, leak.rule)
    for line, rule in unplaced:
        if line not in covered and rule not in by_name:
            yield Leak(path, line, "", rule)


_Place: TypeAlias = tuple[tuple[str, ...], str]
"""The keys that lead to a field, and the rule."""


def _leaks(item: Interaction, redactor: Redactor) -> Iterator[_Place]:
    request, answered = item.request, item.response
    for rule in _rules(request.url, redactor.url(request.url)):
        yield ("request", "uri"), rule
    yield from _header_leaks("request", request.headers, redactor)
    for rule in _rules(_text(request.body), _text(redacted_body(request, redactor))):
        yield ("request", "body"), rule
    yield from _header_leaks("response", answered.headers, redactor)
    after = redacted_response(answered, redactor)
    for rule in _rules(_text(content_of(answered)), _text(content_of(after))):
        yield ("response", "body"), rule


def _header_leaks(part: str, headers: Headers, redactor: Redactor) -> Iterator[_Place]:
    for name, value in headers:
        if _MASKED.fullmatch(value):
            continue
        redacted_value = redacted_header(
            name, redactor.value({name: value}).get(name, ""), redactor
        )
        for rule in _rules(value, redacted_value):
            yield (part, "headers", name), rule


def _rules(before: str, after: str) -> list[str]:
    """Return the rules that replaced something, each once."""
    if before == after:
        return []
    placeholders = Counter(_PLACEHOLDER.findall(before))
    return sorted(Counter(_PLACEHOLDER.findall(after)) - placeholders)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
