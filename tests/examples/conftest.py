"""Examples that stand beside scenarios, called from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.agent_engine.from_engine.__main__ import main
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Call, Done


@pytest.fixture
def convert(project: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    """Call the converter of an agent engine's files."""

    def call(*arguments: str) -> Done:
        code = main(arguments)
        out, err = capsys.readouterr()
        return Done(code, out, err)

    return call
