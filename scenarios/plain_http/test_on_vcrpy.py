"""The steps of `on_vcrpy.feature`: the desk, and a recorder of vcrpy's as simkit configures it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import vcr
from pytest_bdd import given, parsers, scenarios, then, when
from vcr.errors import CannotOverwriteExistingCassetteException

import simkit.vcr

HERE = Path(__file__).parent
RECORDED = HERE.parents[1] / "cassettes" / "plain_http"

scenarios("on_vcrpy.feature")


class Told:
    """What the desk said last, or what vcrpy said in its place."""

    def __init__(self, desk: Any) -> None:
        self.desk = desk
        self.said = self.missed = ""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for name in ("OPENAI_BASE_URL", "DESK_API", "DESK_WAY", "DESK_CHAT"):
        monkeypatch.delenv(name, raising=False)
    return Told(import_module("lookup_desk").Desk())


@given(parsers.parse('vcrpy plays "{name}"'), target_fixture="played")
def _played(name: str) -> Iterator[Any]:
    recorder = simkit.vcr.register(vcr.VCR(record_mode="none", **simkit.vcr.vcr_config()))
    with recorder.use_cassette(str(RECORDED / f"{name}.yaml")) as cassette:
        yield cassette


@given(parsers.parse('chat is instructed "{text}"'))
def _instructed(text: str, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told.said == ""
    monkeypatch.setenv("DESK_CHAT", text)


@when(parsers.parse('the desk is told "{text}"'))
def _asked(text: str, told: Told) -> None:
    try:
        told.said = told.desk.chat(text)
    except CannotOverwriteExistingCassetteException as problem:
        told.missed = str(problem)


@then(parsers.parse('the desk says "{text}"'))
def _said(text: str, told: Told) -> None:
    assert told.missed == ""
    assert told.said == text


@then("nothing answers, and vcrpy shows:")
def _missed(docstring: str, told: Told) -> None:
    assert _flat(docstring) in _flat(told.missed), told.missed


def _flat(text: str) -> str:
    """Returns the lines without the blanks before them, which are vcrpy's."""
    return "\n".join(line.strip() for line in text.splitlines())


@then(parsers.parse("{count:d} recordings were played"))
def _count(count: int, played: Any) -> None:
    assert played.play_count == count
