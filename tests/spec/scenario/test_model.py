"""What a scenario needs is looked up among what is installed, and never imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.spec.scenario.items import items_in
from simkit.spec.scenario.model import unmet

MISSING = "which is not installed: pip install"


@pytest.fixture(autouse=True)
def _installed(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution whose module fails when it is imported; a working directory of its own."""
    info = cwd / "site" / "needed_kit-1.4.dev2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: needed-kit\nVersion: 1.4.dev2\n")
    (cwd / "site" / "needed_kit.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(cwd / "site")


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ([], ""),
        (["needed-kit"], ""),
        (["Needed_Kit >= 1.3, < 2"], ""),
        (["needed-kit==1.4.dev2"], ""),
        (["absent-kit"], f"needs absent-kit, {MISSING} absent-kit"),
        (["absent-kit >= 1.2"], f"needs absent-kit>=1.2, {MISSING} 'absent-kit>=1.2'"),
        (
            ["needed-kit>=2"],
            "needs needed-kit>=2, but 1.4.dev2 is installed: pip install 'needed-kit>=2'",
        ),
        (
            ["needed-kit>=2", "absent-kit", "needed-kit", "other-kit", "absent-kit"],
            "needs absent-kit, other-kit, which are not installed; needed-kit>=2, but 1.4.dev2 is "
            "installed: pip install 'needed-kit>=2' absent-kit other-kit",
        ),
        (["absent-kit>>1"], ""),
    ],
    ids=lambda value: value[0] if isinstance(value, list) and value else "",
)
def test_what_is_not_there_is_told_with_what_to_do(needs: list[str], message: str) -> None:
    assert unmet(needs) == message


def test_a_scenario_needs_what_the_files_under_its_use_need() -> None:
    Path("a.yaml").write_text("needs: [from-a]\nuse: [b.yaml, gone.yaml]\n")
    Path("b.yaml").write_text("needs: [from-b, 7]\nuse: [a.yaml, torn.yaml]\n")
    Path("torn.yaml").write_text("needs: [\n")
    Path("x.scenario.yaml").write_text("scenario: x\nuse: [a.yaml]\nneeds: [own]\nturns: []\n")

    (item,) = items_in("x.scenario.yaml")

    assert item.needs == ("from-b", "from-a", "own")
