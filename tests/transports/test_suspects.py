"""Code that names no process and no sleep is told from its modules, without running it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simkit.capture.http.suspects import may_cause_effects


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def is_suspect(folder: Path, text: str, **others: str) -> bool:
    for name, source in {"suspect_app": text, **others}.items():
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
    importlib.invalidate_caches()
    importlib.import_module("suspect_app")
    return may_cause_effects("suspect_app")


INNOCENT = [
    "import json\ndef run(text): return json.dumps({'time': text, 'random': 'uuid'}).choices",
    "import asyncio\nasync def run(text): await asyncio.sleep(1)",
    "import os\ndef run(text): return os.environ['HOME']",
    "from time import sleep as s\ndef run(text): return s(1)",
    "from asyncio import sleep\nasync def run(text): await sleep(1)",
    "from datetime import date\ndef run(text): return date(2026, 1, 5)",
    "import pydantic, logging, functools\nclass Reply(pydantic.BaseModel): text: str",
    "def run(text): return getattr(text, 'upper')()",
    "import time, random\ndef run(text): return time.time(), random.random()",
    "from datetime import datetime\nrun = lambda text: [lambda: datetime.now()]",
    "import os\ndef run(text): return os.urandom(2)",
]
SUSPECT = [
    "import subprocess\ndef run(text): return subprocess.run(text)",
    "from subprocess import run",
    "def run(text):\n    import subprocess\n    return subprocess.run(text)",
    "import os\ndef run(text): return os.system(text)",
    "from os import fork as run",
    "import importlib\nrun = lambda text: getattr(importlib.import_module('subprocess'), 'run')()",
    "def run(text): return eval(text)",
]


@pytest.mark.parametrize("text", INNOCENT)
def test_code_that_names_none_need_not_be_watched(folder: Path, text: str) -> None:
    assert is_suspect(folder, text) is False


@pytest.mark.parametrize("text", SUSPECT)
def test_code_that_names_one_is_watched(folder: Path, text: str) -> None:
    assert is_suspect(folder, text) is True


@pytest.mark.parametrize(
    "text",
    [
        "import suspect_helper\n",
        "from suspect_helper import helper\n",
        "def run(text):\n    import suspect_helper\n    return suspect_helper.helper()",
        "import suspect_between\n",
    ],
    ids=["module", "function", "later", "through another"],
)
@pytest.mark.parametrize("is_guilty", [True, False])
def test_other_user_code_that_it_uses_is_read_too(folder: Path, text: str, is_guilty: bool) -> None:
    helper = f"import {'subprocess' if is_guilty else 'json'}\ndef helper(): pass\n"

    answer = is_suspect(
        folder, text, suspect_helper=helper, suspect_between="from suspect_helper import helper"
    )

    assert answer is (is_guilty or text.startswith("def"))


def test_a_module_that_nobody_knows_is_watched() -> None:
    assert may_cause_effects("suspect_no_such_module") is True


def test_a_package_is_read_whole_and_what_is_imported_meanwhile_too(folder: Path) -> None:
    package = folder / "suspect_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "later.py").write_text("import subprocess")
    importlib.invalidate_caches()
    importlib.import_module("suspect_package")

    before = may_cause_effects("suspect_package")
    importlib.import_module("suspect_package.later")

    assert (before, may_cause_effects("suspect_package")) == (False, True)
