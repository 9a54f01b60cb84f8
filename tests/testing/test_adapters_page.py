"""The pages on adapters: the example is the one that is tested, and the names are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkit.adapters import api
from simkit.adapters.framework_driver import AdapterContext, FrameworkDriver, Restartable
from simkit.adapters.instrumentation import HasNodes, Instrumentation
from simkit.testing import AdapterConformance
from simkit.testing.rules import APPLICATIONS, rules
from tests.adapters.scribes import Desk
from tests.golden import assert_part_is
from tests.testing.third_party import ThirdParty

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "how-to" / "adapters.md"
PAGES = (FILE, ROOT / "docs" / "reference" / "adapters.md")
PAGE = "\n".join(file.read_text(encoding="utf-8") for file in PAGES)
BLOCKS = {
    name: text for text, name in re.findall(r"^```python\n(# (\S+)\n.*?)^```$", PAGE, re.M | re.S)
}
NAMES = [name for name in vars(api) if name[0].isalpha()]
OWN = ("google_adk", "langgraph", "openai_agents", "opentelemetry", "pydantic_ai")


# The example


@pytest.mark.golden
@pytest.mark.parametrize("part", ["simkit", "applications", "test"])
def test_the_example_is_the_file_that_is_tested(part: str, tmp_path: Path) -> None:
    name = "test_smolagents.py" if part == "test" else f"smolagents_{part}.py"

    text = ThirdParty("smolagents", tmp_path).text(part)

    assert_part_is(FILE, BLOCKS[name], f"# {name}\n{text}")


def test_the_page_publishes_the_example_as_the_test_installs_it(tmp_path: Path) -> None:
    entry = '[project.entry-points."simkit.adapters"]\nsmolagents = "smolagents_simkit"\n'
    metadata = ThirdParty("smolagents", tmp_path).folder / "smolagents_simkit-1.0.dist-info"

    assert entry in PAGE
    assert "smolagents = smolagents_simkit" in (metadata / "entry_points.txt").read_text()


@pytest.mark.slow
def test_a_broken_rule_is_reported_as_the_page_shows(tmp_path: Path) -> None:
    pytest.importorskip("smolagents", reason="smolagents is not installed")
    (example_text,) = re.findall(r"^```text\n(the adapter .*?)^```$", PAGE, re.M | re.S)
    example = ThirdParty("smolagents", tmp_path)
    example.edit("simkit", "lambda turn: with_own_memory(agent)", "lambda turn: agent")

    report = example.pytest("-k", "is_kept and sessions").stdout

    assert [part for part in example_text.split("…\n") if part not in report] == []


def test_the_driver_that_shows_the_memory_of_a_session_works() -> None:
    (text,) = re.findall(r"^```python\n(class ListDriver.*?)^```$", PAGE, re.M | re.S)
    names: dict[str, Any] = {"api": api}
    exec(text, names)

    class Agent:
        """Answers with the number of messages that it has had."""

        def run(self, text: str, messages: tuple[str, ...] = ()) -> SimpleNamespace:
            return SimpleNamespace(messages=(*messages, text), text=f"{len(messages)} before")

    app = SimpleNamespace(options=SimpleNamespace(run_options=None))
    driver = names["ListDriver"](Agent(), app)
    turns = [api.UserTurn("hi", session=name) for name in ("s1", "s2", "s1", "s1", "s2")]

    assert [driver.run_turn(turn) for turn in turns] == [
        "0 before", "0 before", "1 before", "2 before", "1 before",
    ]  # fmt: skip


# Tables


def test_the_page_lists_the_rules_and_the_applications_as_they_are() -> None:
    on_page = {
        name: (app, says)
        for name, app, says in re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+) \|$", PAGE, re.M)
    }
    expected = dict(
        re.findall(r"^\| `(\w+)` \| (.+) \|$", PAGE.split("| application | what")[1], re.M)
    )

    assert on_page == {name: (rule.app, rule.says) for name, rule in rules().items()}
    assert {name: expected.get(name) for name in APPLICATIONS} == APPLICATIONS


def column(head: str) -> str:
    """Return the first two columns of the rows of a table."""
    table = PAGE.split(f"| {head} |")[1].split("\n\n")[0]
    return "\n".join("|".join(row.split(" | ")[:2]) for row in table.splitlines()[2:])


def is_there(path: str) -> bool:
    """Return whether a recorder has what a path such as `events.record_route` names."""
    try:
        reduce(getattr, path.split("."), Desk().recorder)
    except AttributeError:
        return False
    return True


def test_what_the_page_names_is_there() -> None:
    calls = re.findall(r"`([\w.]+)\(", column("what happens"))
    names = re.findall(r"`([\w.]+)[`(]", column("ask the recorder"))
    of_driver = re.findall(r"^\| `(\w+)\(", column("method of a driver"), re.M)
    of_instrumentation = re.findall(r"^\| `(\w+)\(", column("method of an instrumentation"), re.M)
    of_context = re.findall(r"^\| `(\w+)[`(]", column("part"), re.M)

    attributes = [
        name for name in names if name[0].islower() and name not in ("given", "call", "run")
    ]
    assert [name for name in (*calls, *attributes) if not is_there(name) and not known(name)] == []
    assert [name for name in of_driver if not hasattr(FrameworkDriver, name)] == ["restart"]
    assert hasattr(Restartable, "restart")
    assert [name for name in of_instrumentation if not hasattr(Instrumentation, name)] == [
        "nodes", "set_agent_rules",
    ]  # fmt: skip
    assert hasattr(HasNodes, "nodes")
    slots = AdapterContext.__slots__
    assert [
        name for name in of_context if name not in slots and not hasattr(AdapterContext, name)
    ] == []


def known(name: str) -> bool:
    """Return whether a name is one of a recorder's `handoff_tools`, or of its requests."""
    return is_there(f"handoff_tools.{name}") or name in api.ToolRequest.__struct_fields__


def test_the_page_names_all_that_is_public_and_nothing_else() -> None:
    assert [name for name in re.findall(r"\bapi\.(\w+)", PAGE) if name not in NAMES] == []
    assert [name for name in NAMES if not re.search(rf"\b{name}\b", PAGE)] == []


def test_the_page_names_every_attribute_of_the_test_class() -> None:
    declared = [name for name in AdapterConformance.__annotations__ if not name.startswith("_")]

    assert [name for name in declared if f"| `{name}` |" not in PAGE] == []


# simkit's own adapters


def uses(owner: str) -> Iterator[str]:
    """Yield the attributes of a recorder, or of an adapter context, that own adapters use."""
    for adapter in OWN:
        for file in (ROOT / "simkit" / "adapters" / adapter).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute):
                    value = ast.unparse(node.value)
                    if re.search(rf"(^|\W)_?{owner}$", value):
                        yield node.attr


@pytest.mark.parametrize(
    "owner", ["recorder", "recorder.events", "adapter_context", "handoff_tools"]
)
def test_the_page_names_what_own_adapters_use(owner: str) -> None:
    used = set(uses(owner))

    assert used
    assert [name for name in sorted(used) if not re.search(rf"\b{name}\b", PAGE)] == []
