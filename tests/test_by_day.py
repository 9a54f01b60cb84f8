"""By day large tests have fewer rows, and none is without one."""

from __future__ import annotations

import pytest

from tests.conftest import without_crossings

CROSSED = """
import pytest

@pytest.mark.parametrize("a", [1, 2, 3])
@pytest.mark.parametrize(("b", "c"), [(1, "x"), (2, "x")])
def test_crossed(a, b, c): ...

@pytest.mark.parametrize("a", [1, 2, 3])
def test_rows(a): ...

def test_alone(): ...
"""


def test_each_row_of_crossed_parameters_is_in_one_test(pytester: pytest.Pytester) -> None:
    items = pytester.getitems(CROSSED)

    names = [item.name for item in without_crossings(items)]

    assert names == [
        "test_crossed[1-x-1]",
        "test_crossed[1-x-3]",
        "test_crossed[2-x-2]",
        "test_rows[1]",
        "test_rows[2]",
        "test_rows[3]",
        "test_alone",
    ]
