"""Addresses of a scenario file in messages, as lines and steps of the feature."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from simkit.checks.findings import Finding
from simkit.checks.judge import Judgement

_ADDRESS: Final = re.compile(
    r"(?P<adds>one )?(?P<under>under )?"
    r"turns\[(?P<turn>\d+)\]\.(?P<kind>replies|tool_results)\.(?P<name>\w+)(?:\[(?P<place>\d+)\])?"
)
_STEPS: Final = {"replies": 'And {} replies "…"', "tool_results": 'And {} returns "…"'}
Path = tuple[str | int, ...]


def in_steps(judgement: Judgement, line_of: Callable[[Path], int]) -> Judgement:
    """Return a judgement whose findings name lines and steps of the feature.

    ``line_of`` returns the line of a value of the scenario.
    """

    def step(match: re.Match[str]) -> str:
        turn, name = int(match["turn"]), match["name"]
        below = f"below line {line_of(('turns', turn))}"
        if match["adds"]:
            return f"the step `{_STEPS[match['kind']].format(name)}` {below}"
        if match["under"] or match["place"] is None:
            return below
        return f"line {line_of(('turns', turn, match['kind'], name, int(match['place'])))}"

    def in_words(finding: Finding) -> Finding:
        headline, fix = _ADDRESS.sub(step, finding.what), _ADDRESS.sub(step, finding.fix)
        context = tuple(_ADDRESS.sub(step, line) for line in finding.context)
        follows = _ADDRESS.sub(step, finding.follows)
        return msgspec.structs.replace(
            finding, what=headline, fix=fix, context=context, follows=follows
        )

    return msgspec.structs.replace(
        judgement,
        findings=tuple(map(in_words, judgement.findings)),
        warnings=tuple(map(in_words, judgement.warnings)),
        passed_over=tuple(map(in_words, judgement.passed_over)),
    )
