"""Golden files of findings: what is claimed of which conversation, and all that is found.

A case is a headline, the name of a conversation in `judging.py` with options (or `own`, and the
whole scenario, below its pipeline and a line `---` if that is another one), the claims, a line
`finds:`, and the findings. Options are `as_code`, `noted`, `warnings`, and `blind to sections and
filters`, of a driver that does not see these.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks import judging
from tests.golden import assert_file_is

GOLDEN = Path(__file__).parent / "golden"
HEAD = "### "
FINDS = "finds:"


def found_again(case: str) -> str:
    """Return a case with what is found now."""
    given = case.partition(f"\n{FINDS}\n")[0]
    _, options, claims = [*given.split("\n", 2), ""][:3]
    talk, *more = options.split(", ")
    flags = {option: True for option in more if option in ("noted", "warnings")}
    unseen = [name for option in more for name in option.removeprefix("blind to ").split(" and ")]
    edits = {"as_code": judging.as_code, "blind": judging.blind_to(*unseen)}
    pipeline, _, own = claims.rpartition("\n---\n")
    result = judging.describe_findings(
        own if talk == "own" else getattr(judging, talk),
        "" if talk == "own" else claims,
        pipeline=pipeline or judging.PIPELINE,
        edit=next((edits[key] for option in more if (key := option.split()[0]) in edits), None),
        **flags,
    )
    return f"{given}\n{FINDS}\n{result}\n"


@pytest.mark.slow
@pytest.mark.golden
@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.txt")), ids=lambda file: file.stem)
def test_the_findings_are_golden(file: Path) -> None:
    parts = file.read_text(encoding="utf-8").split(f"\n{HEAD}")

    assert_file_is(file, f"\n{HEAD}".join([parts[0], *map(found_again, parts[1:])]))
