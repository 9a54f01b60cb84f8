"""A misspelt module is answered with one that is there: beside the file, or in its folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.core.errors import SimkitError
from tests.adapters.running import run_app


@pytest.mark.parametrize(
    ("file", "path"),
    [("shop_desk.py", "[.]"), ("shop_desk/run.py", "[.]"), ("shop_desk.py", "[code]"),
     ("code/shop_desk.py", "[code]"), ("code/shop_desk/run.py", "[code]")],
)  # fmt: skip
def test_a_misspelt_module_is_answered_with_the_nearest(
    file: str, path: str, tmp_path: Path
) -> None:
    for name in (file, "code/other.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("def run(text): return text\n", encoding="utf-8")

    with pytest.raises(SimkitError, match="Did you mean `shop_desk`"):
        run_app("shop_dsk:run", f"app: {{path: {path}}}\nturns: [{{user: Hi}}]", tmp_path)
