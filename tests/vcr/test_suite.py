"""A suite on vcrpy and pytest-recording holds alone, and with `simkit.vcr` as its configuration.

Its cassettes are recorded from a stand-in that is gone when they are replayed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from simkit.capture.cassettes import load, scan_file
from simkit.core.redact import Redactor
from tests.vcr.standin import standing_in

SUITE = Path(__file__).parent / "suite"
TESTS = 26
CONFIG = re.compile(r"^CONFIG = \{.*?\}$", re.MULTILINE | re.DOTALL)
MOVED = "CONFIG = simkit.vcr.vcr_config()"
"""All that changes for pytest-recording."""
RECORDER = "recorder = simkit.vcr.register(vcr.VCR(\\1))\n"
"""And a recorder of the suite's own has to be told."""
SECRETS = ("sk-proj-", "sk-ant-", "weather-key-77", "session=abcdefgh")


class Project(NamedTuple):
    """A copy of the suite, with cassettes of services that stood at an address."""

    folder: Path
    address: str

    def run(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs pytest in the copy, with no plugin but pytest-recording and simkit's."""
        plugins = ("-p", "pytest_recording.plugin", "-p", "simkit.pytest_plugin")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugins, *arguments],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={**os.environ, "STAND_IN": self.address, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
                 "PYTEST_ADDOPTS": "", "PYTHONPATH": "", "COLUMNS": "200", **environ},
        )  # fmt: skip

    def moved(self, to: Path, settings: str = MOVED) -> Project:
        """Returns a copy that is configured by simkit."""
        shutil.copytree(self.folder, to)
        configure(to, settings)
        return Project(to, self.address)

    def files(self) -> list[Path]:
        return sorted(file for file in (self.folder / "cassettes").rglob("*.*"))


def configure(folder: Path, settings: str) -> None:
    file = folder / "settings.py"
    text = CONFIG.sub(settings, file.read_text(encoding="utf-8"))
    text = re.sub(r"^recorder = vcr.VCR\((.*?)^\)\n", RECORDER, text, flags=re.DOTALL | re.M)
    file.write_text(text.replace("import vcr\n", "import simkit.vcr\nimport vcr\n", 1), "utf-8")


def recorded(folder: Path, settings: str = "") -> Project:
    shutil.copytree(SUITE, folder)
    if settings:
        configure(folder, settings)
    with standing_in() as address:
        project = Project(folder, address)
        done = project.run("--record-mode=once", SUITE_MODE="once")
    assert outcome(done) == f"{TESTS} passed", done.stdout
    return project


def outcome(done: subprocess.CompletedProcess[str]) -> str:
    match = re.search(r"^(.*) in [\d.]+s", done.stdout, re.MULTILINE)
    return match[1] if match else done.stdout + done.stderr


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The suite as it is, recorded and replayed by vcrpy alone."""
    return recorded(tmp_path_factory.mktemp("plain") / "suite")


@pytest.fixture(scope="module")
def moved(plain: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same cassettes, with the configuration changed."""
    return plain.moved(tmp_path_factory.mktemp("moved") / "suite")


PROMPT = "You tell the weather.\nBe rude."
CHATS = ("test_openai.py::test_chat", "test_openai.py::test_chat_with_a_tool_that_asks_a_service")


@pytest.mark.slow
def test_the_suite_holds_with_vcrpy_alone_whatever_the_prompt(plain: Project) -> None:
    assert outcome(plain.run(DESK_SYSTEM=PROMPT)) == f"{TESTS} passed"


@pytest.mark.slow
def test_the_suite_holds_once_its_configuration_is_simkits(moved: Project) -> None:
    """Another order of keys, user agent and version of a library are no miss."""
    changed = {"DESK_ORDER": "other", "DESK_AGENT": "desk/2", "DESK_SDK": "10"}

    assert outcome(moved.run(**changed)) == f"{TESTS} passed"


@pytest.mark.slow
def test_a_changed_prompt_is_then_a_miss_that_names_the_message(moved: Project) -> None:
    done = moved.run(*CHATS, "test_services.py", DESK_SYSTEM=PROMPT)

    assert outcome(done) == "2 failed, 7 passed"
    lines = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    starts = [at for at, line in enumerate(lines) if line == "- recorded, + asked now"]
    # Of the second test's cassette, which holds two model calls, the nearest is told.
    texts = ["~ messages[0] system", "= 1 line", "- Be brief.", "+ Be rude.", "= 1 message", ""]
    assert [lines[start + 1 : start + 7] for start in starts] == [texts, texts]


@pytest.mark.slow(15)
def test_what_is_recorded_with_simkit_holds_no_secret_and_is_replayed(tmp_path: Path) -> None:
    project = recorded(tmp_path / "suite", MOVED)

    assert len(project.files()) == 24
    texts = [file.read_text(encoding="utf-8") for file in project.files()]
    assert [secret for secret in SECRETS if any(secret in text for text in texts)] == []
    assert [scan_file(file, Redactor({})).leaks for file in project.files()] == [()] * len(
        project.files()
    )
    assert outcome(project.run()) == f"{TESTS} passed"


@pytest.mark.slow
def test_cassettes_of_both_are_read_by_simkit(plain: Project) -> None:
    by_name = {file.stem: load(file).interactions for file in plain.files()}

    tool = by_name["test_chat_with_a_tool_that_asks_a_service"]
    assert [item.request.method for item in tool] == ["POST", "GET", "POST"]
    assert b'"degrees": 7' in tool[1].response.body
    assert len(by_name["test_requests_follows_a_redirect"]) == 2


@pytest.mark.slow
def test_what_is_volatile_is_named_in_the_configuration(plain: Project, tmp_path: Path) -> None:
    settings = "CONFIG = simkit.vcr.vcr_config(volatile=['/Be .*/', 'model'])"
    project = plain.moved(tmp_path / "suite", settings)

    assert outcome(project.run(*CHATS, DESK_SYSTEM=PROMPT)) == "2 passed"
    assert outcome(project.run(*CHATS, DESK_SYSTEM="You tell nothing.")) == "2 failed"
