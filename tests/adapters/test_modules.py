"""A misspelt module is answered with one that is there: beside the file, or in its folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.adapters.modules import OwnModules
from simkit.core.errors import SimkitError
from simkit.spec.scenario.apps import App
from tests.adapters.running import prepared, run_app


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

    with pytest.raises(SimkitError, match="Did you mean 'shop_desk'"):
        run_app("shop_dsk:run", f"app: {{path: {path}}}\nturns: [{{user: Hi}}]", tmp_path)


def test_what_is_known_of_an_applications_modules_serves_its_next_run(tmp_path: Path) -> None:
    def own_modules(path: object) -> OwnModules:
        text = f"app: {{path: [{path}]}}\nturns: [{{user: Hi}}]"
        app = prepared("waiting_desk:gathered", text).pipeline
        assert isinstance(app, App)
        return OwnModules(app)

    assert {own_modules("."), own_modules(".")} == {own_modules(".")}
    assert own_modules(tmp_path) != own_modules(".")
