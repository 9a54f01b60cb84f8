"""Keys that only HTTP traffic can show; a pipeline in YAML reads no bytes, so they are rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from simkit.language.yaml import Document, SourcePath
from simkit.providers.failures import FAILURES
from simkit.spec.scenario.faults import Fault
from simkit.spec.scenario.model import Scenario
from simkit.spec.scenario.replies import ErrorLine, lines_of

_OF_RESPONSES: Final = ("logprobs", "citations", "raw")


def check_shown(scenario: Scenario, document: Document) -> None:
    """Raise SourceError for the first key in a declared scenario that needs HTTP traffic."""
    for path, field in _shown_by_a_wire(scenario):
        about = "a provider's response" if field in _OF_RESPONSES else "the bytes of a reply"
        raise document.error(
            path,
            f"`{field}` is about {about}, and a pipeline in YAML reads none",
            advice="It is for a pipeline that is code: `pipeline: module:function`.",
        )


def _shown_by_a_wire(scenario: Scenario) -> Iterator[tuple[SourcePath, str]]:
    for number, turn in enumerate(scenario.turns):
        for agent, lines in turn.replies.items():
            for place, line in enumerate(lines_of(lines)):
                at: SourcePath = ("turns", number, "replies", agent)
                at = (*at, place) if isinstance(lines, tuple) else at
                if _is_wire_only(kind := _kind(line.error)):
                    yield (*at, "error"), kind
                if line.chunks == "bytes":
                    yield (*at, "chunks"), "chunks: bytes"
                for word in _OF_RESPONSES:
                    if getattr(line, word):
                        yield (*at, word), word
        yield from _in_faults(("turns", number, "faults"), turn.faults)
    yield from _in_faults(("faults",), scenario.faults)


def _in_faults(at: SourcePath, faults: Sequence[Fault]) -> Iterator[tuple[SourcePath, str]]:
    for place, fault in enumerate(faults):
        if _is_wire_only(kind := _kind(fault.error)):
            yield (*at, place, "error"), kind


def _kind(error: str | ErrorLine | None) -> str:
    return error.type if isinstance(error, ErrorLine) else error or ""


def _is_wire_only(kind: str) -> bool:
    return kind in FAILURES and FAILURES[kind].is_wire_only
