"""Code that implements declared pipelines: which scenarios are its, and what a file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SourceError
from simkit.language.yaml import Document
from simkit.spec.scenario.apps import App, check_left_out, scenarios_of, standing
from simkit.spec.scenario.files import Library
from simkit.spec.scenario.items import items_in

DESIGN = "version: 1\npipeline: shop\nagents: {a: {}}\nflow: {handoffs: {start: a}}\n"
SCENARIOS = """\
version: 1
scenario: one
pipeline: shop.pipeline.yaml
turns: [{user: Hello}]
---
version: 1
scenario: two
pipeline: shop.pipeline.yaml
turns: [{user: Hello}]
---
version: 1
scenario: of another
pipeline: other.pipeline.yaml
turns: [{user: Hello}]
"""
OWN = DESIGN + "---\nversion: 1\nscenario: with its own\npipeline: shop\nturns: [{user: Hello}]\n"
CODE = """\
version: 1
pipeline: real
code: shop:run
implements:
  designs: [shop.pipeline.yaml]
  leaves_out: {talks/shop.scenario.yaml::two: Why not.}
"""


@pytest.fixture
def folder(cwd: Path) -> Path:
    (cwd / "talks").mkdir()
    for name in ("shop", "other"):
        (cwd / f"{name}.pipeline.yaml").write_text(DESIGN)
    moved = SCENARIOS.replace("pipeline: ", "pipeline: ../")
    (cwd / "talks" / "shop.scenario.yaml").write_text(moved)
    (cwd / "own.scenario.yaml").write_text(OWN)
    return cwd


def code(text: str = CODE) -> tuple[App, Document]:
    Path("real.pipeline.yaml").write_text(text)
    library = Library()
    (document,) = library.documents("real.pipeline.yaml")
    app = library.subject(document)
    assert isinstance(app, App)
    return app, document


def check(text: str) -> None:
    app, document = code(text)
    check_left_out(document, app)


def refused(text: str) -> str:
    with pytest.raises(SourceError) as caught:
        check(text)
    return str(caught.value)


@pytest.mark.usefixtures("folder")
def test_the_scenarios_of_its_designs_are_found_wherever_they_stand_below() -> None:
    app, _ = code()
    both, _ = code(CODE.replace("[shop.pipeline.yaml]", "[shop.pipeline.yaml, own.scenario.yaml]"))

    assert list(scenarios_of(app)) == [
        "talks/shop.scenario.yaml::one", "talks/shop.scenario.yaml::two"
    ]  # fmt: skip
    assert list(scenarios_of(both)) == [
        "own.scenario.yaml::with its own", "talks/shop.scenario.yaml::one",
        "talks/shop.scenario.yaml::two",
    ]  # fmt: skip


@pytest.mark.usefixtures("folder")
def test_a_scenario_is_its_or_left_out_or_of_another() -> None:
    app, _ = code()
    item, two, other = items_in("talks/shop.scenario.yaml")

    assert (standing(item, app).other, standing(item, app).left_out) == ("", "")
    assert standing(two, app).left_out == "Why not."
    assert standing(other, app).other == "`real` does not implement its pipeline"


@pytest.mark.usefixtures("folder")
def test_code_that_implements_nothing_takes_every_scenario() -> None:
    app, document = code("version: 1\npipeline: real\ncode: shop:run\n")
    (*_, other) = items_in("talks/shop.scenario.yaml")

    check_left_out(document, app)

    assert standing(other, app).other == ""
    assert scenarios_of(app) == {}


@pytest.mark.usefixtures("folder")
def test_what_is_left_out_must_be_there() -> None:
    assert refused(CODE.replace("::two", "::tow")) == (
        "real.pipeline.yaml:6:16: unknown scenario `talks/shop.scenario.yaml::tow`\n"
        '  at implements.leaves_out."talks/shop.scenario.yaml::tow"\n'
        "  did you mean `talks/shop.scenario.yaml::two`?   known: talks/shop.scenario.yaml::one, "
        "talks/shop.scenario.yaml::two"
    )


@pytest.mark.usefixtures("folder")
def test_a_design_must_be_a_file_beside_it() -> None:
    assert refused(CODE.replace("[shop.pipe", "[shp.pipe")) == (
        "real.pipeline.yaml:5:13: there is no pipeline file `shp.pipeline.yaml` beside this one\n"
        "  at implements.designs[0]\n"
        "  did you mean `shop.pipeline.yaml`?   known: other.pipeline.yaml, real.pipeline.yaml, "
        "shop.pipeline.yaml"
    )


@pytest.mark.usefixtures("folder")
def test_a_difference_is_of_a_kind() -> None:
    assert refused(CODE + "  differs: {contexts.a: Why.}\n") == (
        "real.pipeline.yaml:7:13: unknown kind of difference `contexts`\n"
        '  at implements.differs."contexts.a"\n'
        "  did you mean `context`?   known: context, calls, handoffs, state, turn"
    )
