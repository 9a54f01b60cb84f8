"""Functions that are named and not there, told without running any module."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden import assert_says
from tests.spec.validation.cases import FILE, cases, problems_of

SHOP = """\
from __future__ import annotations
import decimal, os.path as paths
from .elsewhere import refund as give_back
if decimal:
    rate: float = 0.19
try:
    quick, (slow, *rest) = 1, (2, 3)
except ValueError:
    def fallback(): hidden = 1
class Basket: price = 3
raise SystemExit("nothing here may run")
"""
NAMES = ("decimal", "paths", "give_back", "rate", "quick", "slow", "rest", "fallback", "Basket")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(cwd: Path) -> None:
    Path("shop.py").write_text(SHOP, encoding="utf-8")
    Path("torn.py").write_text("def refund(:\n", encoding="utf-8")
    Path("open.py").write_text("from decimal import *\n", encoding="utf-8")
    Path("house/deep").mkdir(parents=True)
    Path("house/deep/cellar.py").write_text("def find(): ...\n", encoding="utf-8")


@cases("found", "functions")
def test_a_function_that_is_not_there_is_found(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


@cases("passed", "functions")
def test_a_function_that_is_there_or_may_be_is_passed(text: str, says: str) -> None:
    Path(FILE).write_text(text, encoding="utf-8")

    assert_says(problems_of(), says)


def problems_with(name: str) -> str:
    """Returns the problems of a pipeline that names a function of the shop."""
    Path("p.pipeline.yaml").write_text(
        f"version: 1\npipeline: p\nagents: {{a: {{function: shop:{name}}}}}\n"
        "flow: {handoffs: {start: a}}\n"
    )
    return problems_of("p.pipeline.yaml")


@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_module_binds_is_there(name: str) -> None:
    assert problems_with(name) == ""


@pytest.mark.parametrize("name", ["hidden", "price", "refund"])
def test_what_is_bound_inside_of_something_is_not(name: str) -> None:
    assert f"module 'shop' has no function '{name}'" in problems_with(name)
