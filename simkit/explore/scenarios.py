"""Discovery conversations as scenario files, which fail with the same finding by themselves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simkit.checks.findings import Finding
from simkit.core.errors import SimkitError
from simkit.core.text import counted
from simkit.explore.causes import CLAIM_KEYS, Cause, cause_of, label_of
from simkit.explore.conversations import unheard, with_turns
from simkit.explore.search import Discovery
from simkit.explore.subjects import Subject
from simkit.language.matching.misses import line
from simkit.language.paths import as_text, literal
from simkit.session.simulate import Conversation, simulate
from simkit.spec.scenario.files import Library, Prepared, moved_paths
from simkit.spec.scenario.items import SCENARIO_SUFFIX, items_in
from simkit.spec.scenario.model import Turn
from simkit.spec.scenario.simulations import thing_denied
from simkit.spec.scenario.writing import block, comment

SATISFIES: Final = "satisfies"
COMPARED: Final = ("STA-06", "STA-08")
"""The lints that compare a run with another one."""
_LEFT_OUT: Final = ("scenario", "turns", "expect", "examples", "xfail", "tags", "skip", "cassette")
"""Keys of the scenario that it starts from that say nothing of what was found."""


def scenario_text(discovery: Discovery, subject: Subject, folder: Path, command: str) -> str:
    """Return the text of a scenario file in a folder that shows a cause.

    ``command`` found it.
    """
    prepared = subject.prepared
    document = prepared.document
    title = headline(discovery)
    name = title[:100] if subject.is_made_up else subject.simulation.simulation
    tree: dict[str, Any] = {"scenario": name}
    tree |= {key: value for key, value in document.data.items() if key not in _LEFT_OUT}
    tree |= dict(moved_paths(tree, prepared, folder))
    tree |= conversation_data(discovery, subject)
    # All references are resolved: what is left is meant literally.
    tree = literal(tree)
    redactor = prepared.redactor(os.environ)
    tree, title = redactor.value(tree), redactor.text(title)
    lines = [
        comment(f"{label_of(discovery.cause)}: {title}"),
        comment(f"`{command}` found it, and made it as small as it could."),
        *block(tree, 0),
    ]
    pipeline_document = prepared.pipeline_document
    if pipeline_document is not document and pipeline_document.file == document.file:
        lines += ["---", *block(redactor.value(pipeline_document.data), 0)]
    return "\n".join([*lines, ""])


def conversation_data(discovery: Discovery, subject: Subject) -> dict[str, Any]:
    """Return the turns, with the one claim that fails, if it is a claim."""
    record, finding = discovery.record, discovery.record.causes[discovery.cause]
    turns = [dict(turn) for turn in record.turns]
    if not discovery.is_repeatable:
        # The last run has no turn and no claim in which it failed.
        return {"turns": turns}
    if label_of(discovery.cause) == "never":
        claim = dict(record.denials[discovery.cause])
        if finding.path[0] != "turns":
            return {"turns": turns, "expect": claim}
        index = int(finding.path[1])
        turns[index]["expect"] = {**turns[index].get("expect", {}), **claim}
    if label_of(discovery.cause) == "finally":
        return {"turns": turns, "expect": _only(subject.finally_, finding.path[1:])}
    if label_of(discovery.cause) == "always":
        index = int(finding.path[1])
        claim = _only(record.claims[index], finding.path[3:])
        turns[index]["expect"] = {**turns[index].get("expect", {}), **claim}
    return {"turns": turns}


def as_scenario(discovery: Discovery, subject: Subject) -> Prepared:
    """Return the scenario that shows a cause."""
    data = conversation_data(discovery, subject)
    turns = [Turn.model_validate(turn) for turn in data["turns"]]
    return with_turns(subject.prepared, data["turns"], turns, data.get("expect", {}))


def earlier_lines(growing: Sequence[str]) -> Iterator[str]:
    """Yield what a finding means that its conversation alone does not show.

    ``growing`` are the names whose values outlive a conversation.
    """
    yield "No scenario: in a new process, this conversation alone does not show it. It needs those"
    yield "before it, of which something outlives its conversation in the code."
    if growing:
        yield f"Values that conversations changed: {', '.join(growing)}."
    yield "Keep such values for each session. `app: {fresh: true}` imports the code's modules again"
    yield "for each conversation, and shows whether anything else is found."


def _only(claims: Mapping[str, Any], path: Sequence[str | int]) -> dict[str, Any]:
    """Return the claim at a path, without those beside it."""
    key, *inner = [str(part) for part in path]
    claim = claims[key]
    if key == SATISFIES and inner:
        return {key: claim[int(inner[0])]}
    is_parted = inner and isinstance(claim, Mapping) and inner[0] in claim
    return {key: {inner[0]: claim[inner[0]]} if is_parted else claim}


def headline(discovery: Discovery) -> str:
    """Return what is wrong, in one line: for claims, which one, and the first difference."""
    cause, finding = discovery.cause, discovery.record.causes[discovery.cause]
    sentence = finding.what
    if label_of(cause) == "never" and discovery.is_repeatable:
        sentence = _denial_text(discovery)
    claim = cause.detail.partition(".")[2]
    if label_of(cause) in ("always", "finally") and not claim.startswith(SATISFIES):
        sentence = f"the claim on `{claim}` does not hold"
        if not finding.differences:
            sentence += f": {finding.what}"
        for difference in finding.differences[:1]:
            at = f" at {difference.at}" if difference.at else ""
            sentence += f"{at}: wanted {difference.expected}, found {difference.actual}"
    return " ".join(sentence.split())


def title_of(discovery: Discovery) -> str:
    """Return the cause, what is wrong, and how often it was met, in one line."""
    times = counted(discovery.runs, "conversation")
    return f"{label_of(discovery.cause)}: {headline(discovery)} (in {times})"


def shown_lines(
    discovery: Discovery, subject: Subject, growing: Sequence[str], command: str
) -> list[str]:
    """Return the lines of a scenario, in the current folder, that shows a cause, or why none does.

    ``growing`` are the names whose values outlive a conversation.
    """
    if not discovery.is_alone:
        return [*earlier_lines(growing)]
    return scenario_text(discovery, subject, Path.cwd(), command).splitlines()


def _denial_text(discovery: Discovery) -> str:
    """Return what happened that must never happen."""
    ((family, denial),) = discovery.record.denials[discovery.cause].items()
    noun = {"tool_calls": "a tool call", "handoffs": "a handoff"}.get(family, "an event")
    text = f"{noun} {line(thing_denied(denial))} happened"
    if "$unique" not in denial:
        return text
    return f"{text} twice with the same {as_text(denial['$unique']['by'])}"


def file_name(cause: Cause, number: int) -> str:
    """Return the name of the file of a cause: its lint and agent, and a number beyond 1."""
    label = label_of(cause)
    words = cause.detail.split(".") if label in CLAIM_KEYS else [label, cause.agent]
    name = "-".join(re.sub(r"[^\w-]+", "_", word) for word in words if word)
    return f"{name}{'' if number == 1 else f'-{number}'}{SCENARIO_SUFFIX}"


def shows(file: Path, cause: Cause, *, is_apart: bool = False) -> bool:
    """Return whether the scenario of a file fails by this cause; ``is_apart``: in a new process."""
    library = Library()
    (item,) = items_in(str(file), library.cache)
    prepared = library.prepared(item)
    if is_apart:
        return shows_apart(prepared, cause)
    with unheard():
        judgement = simulate(prepared).judgement
        return is_shown((*judgement.findings, *judgement.warnings), cause)


def shows_apart(prepared: Prepared, cause: Cause) -> bool:
    """Return whether a new process that runs a scenario alone fails by this cause."""
    try:
        with unheard(), Conversation(prepared, is_apart=True) as conversation:
            conversation.follow(prepared)
            judgement = conversation.judgement(compared=cause.id in COMPARED)
            return is_shown((*judgement.findings, *judgement.warnings), cause)
    except SimkitError:
        return False


def is_shown(findings: Iterable[Finding], cause: Cause) -> bool:
    """Return whether the findings of a discovery's scenario have its cause."""
    if label_of(cause) == "never":  # In the scenario it is an ordinary claim, the only one.
        return any(label_of(cause_of(finding)) in CLAIM_KEYS for finding in findings)
    return cause in {cause_of(finding) for finding in findings}
