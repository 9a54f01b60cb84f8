"""Every test here is a run of pytest in a new process, in a user's folder."""

from __future__ import annotations

import pytest

from tests.desk import install


@pytest.fixture(autouse=True)
def _installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    install(pytester, monkeypatch)
