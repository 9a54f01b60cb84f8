"""What libraries report to their makers of each run stays off, unless the user turned it on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in

REPORTING = """
import os
import urllib.request


def answer(text):
    if os.getenv("AGNO_TELEMETRY", "true") == "true":
        urllib.request.urlopen("https://telemetry.example/runs")
    return os.getenv("DO_NOT_TRACK")
"""


@pytest.mark.parametrize("wish", [None, "false"])
def test_no_library_of_google_looks_for_a_machine_of_googles_unless_the_user_wants_it(
    wish: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`google-auth` would ask the metadata address for keys."""
    monkeypatch.delenv("NO_GCE_CHECK", raising=False)
    if wish is not None:
        monkeypatch.setenv("NO_GCE_CHECK", wish)
    code = "import os\n\ndef answer(message):\n    return os.getenv('NO_GCE_CHECK')\n"
    (tmp_path / "asking_google.py").write_text(code, encoding="utf-8")
    file = tmp_path / "a.scenario.yaml"
    turn = f"{{user: Hi, expect: {{reply: '{wish or 'true'}'}}}}"
    file.write_text(f"scenario: a\npipeline: asking_google:answer\nturns: [{turn}]\n", "utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)

    assert not simulate(library.prepared(item)).judgement.findings


@pytest.mark.parametrize("wish", [None, "true"])
def test_a_report_is_sent_only_if_the_user_wants_it(
    wish: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that is refused would end a turn that has nothing to do with it."""
    monkeypatch.delenv("AGNO_TELEMETRY", raising=False)
    if wish is not None:
        monkeypatch.setenv("AGNO_TELEMETRY", wish)
    (tmp_path / "reporting_team.py").write_text(REPORTING, encoding="utf-8")
    file = tmp_path / "a.scenario.yaml"
    claim = "reply: '1'" if wish is None else "error: NetworkRefused"
    turn = f"{{user: Hi, expect: {{{claim}}}}}"
    file.write_text(f"scenario: a\npipeline: reporting_team:answer\nturns: [{turn}]\n", "utf-8")
    library = Library()
    (item,) = items_in(str(file), library.cache)

    outcome = simulate(library.prepared(item))

    assert not outcome.judgement.findings
    assert os.getenv("AGNO_TELEMETRY") == wish
