"""Each profile of exploration has a page, which says what happens as the code does it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from simkit.explore.subjects import PROFILES
from simkit.spec.scenario.simulations import MISBEHAVIOURS, TURN_FAULTS

FOLDER: Final = Path(__file__).parent.parent / "docs" / "how-to" / "profiles"
SHARE: Final = re.compile(r"^\| `(\w+)` \| (\d+) % of (model calls|turns|answers) \|", re.MULTILINE)
PROFILE: Final = re.compile(r"^\| \[`(\w+)`\]\((\w+)\.md\) \|", re.MULTILINE)
INCIDENT: Final = re.compile(r"^\| \[[^\]]+\]\(https://[^)]+\) \| .+\. \|$", re.MULTILINE)
LEAST_INCIDENTS: Final = 3


def page_of(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def unit_of(name: str) -> str:
    if name in MISBEHAVIOURS:
        return "answers"
    return "turns" if name in TURN_FAULTS else "model calls"


def test_every_profile_has_a_row_and_a_page() -> None:
    assert PROFILE.findall(page_of("README")) == [(name, name) for name in PROFILES]
    assert {file.stem for file in FOLDER.glob("*.md")} == {"README", *PROFILES}


@pytest.mark.parametrize("name", PROFILES)
def test_a_page_says_the_shares_that_are_drawn(name: str) -> None:
    profile = PROFILES[name]
    shares = {**profile.faults, **profile.misbehaves}

    assert SHARE.findall(page_of(name)) == [
        (kind, f"{share:.0%}".rstrip("%"), unit_of(kind)) for kind, share in shares.items()
    ]


@pytest.mark.parametrize("name", PROFILES)
def test_a_page_says_what_else_is_different(name: str) -> None:
    profile, page = PROFILES[name], page_of(name)

    assert (f"has {profile.sessions} conversations at once" in page) == (profile.sessions > 1)
    assert (f"`schedule: {profile.schedule}`" in page) == (profile.schedule is not None)
    assert (f"| turns | up to {profile.turns} in a conversation |" in page) == (profile.turns > 0)


@pytest.mark.parametrize("name", PROFILES)
def test_a_page_shows_a_find_its_mend_and_public_incidents(name: str) -> None:
    page, (_, incidents) = page_of(name), page_of(name).split("## Incidents\n")
    commands = re.findall(r"^\$ simkit explore .*$", page, re.MULTILINE)

    assert f"--profile {name}" in commands[-1]
    assert "  FOUND  " in page.partition("## How to fix it")[0]
    # Warnings may stand before it: they are of other kinds than what was mended.
    assert re.search(
        r"^nothing (else )?was found: no error", page.rpartition(commands[-1])[2], re.M
    )
    assert len(INCIDENT.findall(incidents)) >= LEAST_INCIDENTS
