"""A price is a number of US dollars."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SimkitError
from simkit.spec.pipeline.models import prices_in

PRICE = "prices:\n  gpt-5-mini: {{input: {value}, output: 2}}\n"


def test_a_price_is_read_as_dollars(tmp_path: Path) -> None:
    (tmp_path / "prices.yaml").write_text(PRICE.format(value="0"))

    price = prices_in(str(tmp_path / "prices.yaml")).price_of("gpt-5-mini")

    assert price is not None
    assert (price.input, price.output) == (0.0, 2.0)


@pytest.mark.parametrize("value", ["-0.25", "true", "'0.25'"])
def test_another_value_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "prices.yaml").write_text(PRICE.format(value=value))

    with pytest.raises(SimkitError, match=r"prices.yaml:2:\d+: .*must be a number of US dollars"):
        prices_in(str(tmp_path / "prices.yaml"))
