"""A pipeline's surroundings are put in place, and taken away whatever happens."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simkit.adapters.entry import found_as
from simkit.adapters.environment import surroundings
from simkit.core.errors import FunctionMissing
from simkit.spec.scenario.apps import App, AppOptions

NAME = "SIMKIT_TEST_VARIABLE"


def app(folder: Path, entry: str = "their_app:run", **options: Any) -> App:
    return App(entry, entry, str(folder), AppOptions.model_validate(options), {})


def unfound(name: str) -> Any:
    raise AssertionError(name)


def write(folder: Path, text: str, name: str = "their_app") -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(text, encoding="utf-8")


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    sys.modules.pop("their_app", None)


def test_keys_have_a_dummy_value_and_what_was_there_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", NAME)

    with surroundings(app(tmp_path, env={NAME: "here"}), unfound):
        inside = [os.environ.get(name) for name in names]

    assert inside == ["simkit", "simkit", "here"]
    assert [os.environ.get(name) for name in names] == ["sk-mine", None, None]


def test_real_traffic_keeps_the_real_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)

    with surroundings(app(tmp_path), unfound, keeps_keys=True):
        assert (os.environ["OPENAI_API_KEY"], os.environ["ANTHROPIC_API_KEY"]) == (
            "sk-mine", "simkit-without-a-key",
        )  # fmt: skip


def test_what_the_scenario_says_wins_over_the_dummy(tmp_path: Path) -> None:
    with surroundings(app(tmp_path, env={"OPENAI_API_KEY": "own"}), unfound):
        assert os.environ["OPENAI_API_KEY"] == "own"


def test_the_surroundings_stay_until_the_last_scenario_has_left(tmp_path: Path) -> None:
    first = surroundings(app(tmp_path, path=["."], env={NAME: "first"}), unfound)
    second = surroundings(app(tmp_path, path=["."], env={NAME: "second"}), unfound)
    folder = str(tmp_path.resolve())
    results = []

    first.__enter__()
    second.__enter__()
    results.append((os.environ.get(NAME), sys.path.count(folder)))
    second.__exit__(None, None, None)
    results.append((os.environ.get(NAME), sys.path.count(folder)))
    first.__exit__(None, None, None)
    results.append((os.environ.get(NAME), sys.path.count(folder)))

    assert results == [("second", 1), ("first", 1), (None, 0)]


def test_a_folder_that_was_on_the_path_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path.resolve())
    monkeypatch.syspath_prepend(folder)

    with surroundings(app(tmp_path, path=["."]), unfound):
        assert sys.path.count(folder) == 1

    assert sys.path.count(folder) == 1


def test_the_first_folder_is_looked_in_first(tmp_path: Path) -> None:
    write(tmp_path / "one", "run = 'one'")
    write(tmp_path / "two", "run = 'two'")

    with surroundings(app(tmp_path, path=["one", "two"]), unfound):
        assert found_as("their_app:run") == "one"


def test_fresh_modules_are_imported_anew_for_every_scenario(tmp_path: Path) -> None:
    write(tmp_path, "run = []")
    results = []

    for is_fresh in (True, True, False, False):
        with surroundings(app(tmp_path, path=["."], fresh=is_fresh), unfound):
            results.append(found_as("their_app:run"))

    assert [item is other for item, other in pairwise(results)] == [
        False, False, True,
    ]  # fmt: skip


def test_modules_of_one_name_in_two_folders_are_not_taken_for_each_other(tmp_path: Path) -> None:
    write(tmp_path / "one", "run = 'one'")
    write(tmp_path / "two", "run = 'two'")
    results = []

    for folder in ("one", "two", "one"):
        with surroundings(app(tmp_path / folder, path=["."]), unfound):
            results.append(found_as("their_app:run"))

    assert results == ["one", "two", "one"]


def test_a_setup_is_called_before_and_one_that_yields_goes_on_afterwards(tmp_path: Path) -> None:
    texts: list[str] = []

    def once() -> None:
        texts.append("once")

    def around() -> Iterator[None]:
        texts.append("before")
        yield
        texts.append("after")

    functions = {"x:once": once, "x:around": around}
    for name in functions:
        with surroundings(app(tmp_path, setup=name), functions.__getitem__):
            texts.append("inside")

    assert texts == ["once", "inside", "before", "inside", "after"]


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("problem", [OSError("no database"), SystemExit(0)], ids=repr)
def test_a_setup_that_raises_is_an_error_of_the_scenario(
    problem: BaseException, tmp_path: Path, *, is_after: bool
) -> None:
    def fails() -> Iterator[None]:
        if is_after:
            yield
        raise problem

    verb = "cleans up after" if is_after else "prepares"
    with (
        pytest.raises(FunctionMissing, match=rf"^`x:y` {verb} .* raised {type(problem).__name__}"),
        surroundings(app(tmp_path, setup="x:y"), lambda name: fails),
    ):
        assert is_after


def test_everything_is_taken_away_where_the_setup_fails(tmp_path: Path) -> None:
    def fails() -> None:
        raise OSError("no database")

    with (
        pytest.raises(FunctionMissing, match=r"^`x:y` prepares the app .*: no database, at "),
        surroundings(app(tmp_path, setup="x:y", env={NAME: "1"}, path=["."]), lambda name: fails),
    ):
        pass

    assert os.environ.get(NAME) is None
    assert str(tmp_path.resolve()) not in sys.path
