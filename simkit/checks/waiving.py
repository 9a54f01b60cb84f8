"""Waivers of lints: everywhere, or only if a finding names a place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simkit.checks.claims import LINES_MAX, Writer
from simkit.checks.findings import Finding, Hit
from simkit.spec.pipeline.waivers import is_off, names_place, places_off
from simkit.spec.validation_catalogue import PREFIX

Waived = Mapping[str, Mapping[str, str]]


def is_waived(hit: Hit, waivers: Waived, writer: Writer) -> bool:
    """Return whether a scenario turns a hit off."""
    if is_off(waivers, hit.id):
        return True
    texts = _texts(hit, writer) if hit.id in waivers else ()
    return any(names_place(texts, place) for place in waivers.get(hit.id, ()))


def check_waivers(waivers: Waived, hits: Sequence[Hit], writer: Writer) -> Iterator[Finding]:
    """Yield each place under `lints` that turned nothing off."""
    for code, place in places_off(waivers):
        if code.startswith(PREFIX):
            continue  # `simkit validate` checks these.
        hits_of_lint = [hit for hit in hits if hit.id == code]
        if any(names_place(_texts(hit, writer), place) for hit in hits_of_lint):
            continue
        lines = [f"found: {hit.what}" for hit in hits_of_lint[:LINES_MAX]]
        if len(hits_of_lint) > LINES_MAX:
            lines.append(f"… {len(hits_of_lint) - LINES_MAX} more")
        yield writer.finding(
            ("lints", code, place),
            f"`{code}` was not found at `{place}`, so nothing is turned off there",
            context=lines or [f"{code} was not found at all"],
            fix="Remove the entry, or name the place as the finding does.",
        )


def _texts(hit: Hit, writer: Writer) -> list[str]:
    """Return the texts of a finding in which a place may occur."""
    fields = [value for value in hit.fields().values() if isinstance(value, str)]
    position = [writer.position(hit.path)] if hit.path else []
    return [*fields, *position, f"turn {hit.turn}" if hit.turn else ""]
