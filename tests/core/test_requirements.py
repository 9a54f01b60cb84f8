"""Each package that simkit requires has work: a scenario or feature fails without it, and says so.

A package is taken away by a `sitecustomize` that makes it impossible to import, in a process of its
own, which is what `pip uninstall` leaves but for the metadata.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from simkit.core.requirements import (
    distribution_of,
    missing_in_test,
    missing_package,
    was_asked_by_simkit,
)
from tests.conftest import sample_by_day

ROOT = Path(__file__).parents[2]
REPLAY = "simkit replay -q "
PYTEST = "pytest -q -o addopts=--import-mode=importlib -p simkit.pytest_plugin "
TRAFFIC = "scenarios/plain_http/recorded.scenario.yaml"
CUSTOMERS = "scenarios/customers/desk.scenario.yaml"
ON_VCRPY = PYTEST + "-p pytest_bdd.plugin scenarios/plain_http/test_on_vcrpy.py"
FEATURES = PYTEST + "features/test_features.py -k who_comes_next"


class Lack(NamedTuple):
    """A command of a user's, the module that is taken away, and what the command then says."""

    module: str
    command: str
    says: str
    others: str = ""
    """What the command needs only as long as nothing is taken away."""


SAYS = "simkit needs {0}, which is not installed here: pip install '{0}>="
LACKS = [
    Lack("pytest", PYTEST + CUSTOMERS, "No module named pytest"),
    Lack("pytest_bdd", FEATURES, SAYS.format("pytest-bdd"), "-p pytest_bdd.plugin"),
    Lack("vcr", ON_VCRPY, SAYS.format("vcrpy")),
    Lack("pydantic", REPLAY + TRAFFIC, SAYS.format("pydantic")),
    Lack("pydantic", PYTEST + TRAFFIC, SAYS.format("pydantic")),
    Lack("faker", REPLAY + CUSTOMERS, SAYS.format("faker")),
    Lack("faker", PYTEST + CUSTOMERS, SAYS.format("faker")),
    Lack("tabulate", "simkit coverage " + CUSTOMERS, SAYS.format("tabulate")),
]


def run(command: str, folder: Path, lacking: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command in an environment that lacks a module, or nothing."""
    text = f"import sys\nsys.modules[{lacking!r}] = None\n" if lacking else ""
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-m", *command.split()], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=120,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "COLUMNS": "200",
             "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "lack", sample_by_day(LACKS, 3), ids=lambda lack: f"{lack.module}-{lack.command[:6]}"
)
def test_without_a_package_something_that_users_write_fails_and_names_it(
    lack: Lack, tmp_path: Path
) -> None:
    done = run(lack.command, tmp_path, lack.module)

    assert done.returncode != 0
    assert lack.says in done.stdout + done.stderr
    assert "bug in simkit" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", dict.fromkeys(f"{row.command} {row.others}" for row in LACKS))
def test_it_holds_with_all_packages(command: str, tmp_path: Path) -> None:
    done = run(command.strip(), tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_nothing_is_sent_that_could_not_be_written(tmp_path: Path) -> None:
    done = run(f"simkit record {TRAFFIC}", tmp_path, "vcr")

    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == "simkit needs vcrpy, which is not installed here: pip install 'vcrpy>=7'\n"
    )


@pytest.mark.parametrize(
    ("module", "package"),
    [("yaml", "pyyaml>=6.0.2"), ("vcr.request", "vcrpy>=7"), ("time_machine", "time-machine>=3.6")],
)
def test_a_package_is_named_as_pip_knows_it(module: str, package: str) -> None:
    lacking = missing_package(ModuleNotFoundError("…", name=module))

    assert lacking.lower().endswith(f"pip install '{package}'")


def test_other_packages_are_the_users_own() -> None:
    assert missing_package(ModuleNotFoundError("…", name="numpy")) == ""
    assert missing_package(ValueError("pydantic")) == ""


def test_what_the_users_own_code_imports_in_vain_keeps_its_traceback() -> None:
    with pytest.raises(ModuleNotFoundError) as caught:
        exec("raise ModuleNotFoundError('…', name='pydantic')", {"__name__": "shop.desk"})

    assert not was_asked_by_simkit(caught.value)
    assert missing_in_test(caught.value) == ""
    assert missing_in_test(caught.value, "shop/desk.py:1").startswith(
        "shop/desk.py:1\nsimkit needs"
    )


@pytest.mark.parametrize(
    ("module", "distribution"),
    [("dotenv", "python-dotenv"), ("yaml", "pyyaml"), ("PIL.Image", "pillow"), ("httpx", "httpx")],
)
def test_module_is_installed_as_its_distribution(module: str, distribution: str) -> None:
    assert distribution_of(module) == distribution


EXTRAS: Final = (
    "h11", "hypothesis", "mcp", "opentelemetry", "langgraph", "langchain_core", "agents", "openai",
    "anthropic", "pydantic_ai", "httpx", "httpx2", "requests", "aiohttp", "distributed", "google",
)  # fmt: skip
CORE: Final = (
    "simkit.adapters.driver", "simkit.bdd", "simkit.cli.commands", "simkit.cli.view",
    "simkit.cli.doctor", "simkit.cli.importing", "simkit.cli.init.first_test", "simkit.cli.live",
    "simkit.cli.mutate", "simkit.cli.replay", "simkit.cli.serve", "simkit.cli.tool_server",
    "simkit.pytest_plugin", "simkit.session.simulate", "simkit.testing", "simkit.viewer",
)  # fmt: skip


@pytest.mark.slow
def test_what_everybody_imports_needs_no_extra() -> None:
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({EXTRAS!r}))
for module in {CORE!r}:
    importlib.import_module(module)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
