"""Every example in README and docs runs, and prints what the page says it prints."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from simkit.cli import main
from simkit.spec.lint_catalogue import LINTS
from tests.conftest import sample_by_day
from tests.golden import assert_part_is, assert_tables_are
from website.pictures import apply_diff

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
HOW_TO, REFERENCE = DOCS / "how-to", DOCS / "reference"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TUTORIAL = DOCS / "tutorial.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"^# (\S+\.(?:scenario|simulation|pipeline)\.yaml|\S+\.py|\S+\.feature)\n")
SECONDS = re.compile(r"(?<=\()\d+\.\d+(?= s\))|(?<= in )\d+\.\d+(?=s)")


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(result[1], result[2]) for result in FENCE.finditer(page.read_text(encoding="utf-8"))]


def write_files(page: Path, folder: Path) -> list[str]:
    """Writes the page's named examples; their first line, a comment, is their name."""
    names = []
    for kind, text in blocks(page):
        if kind == "json" and text.startswith('{"resourceSpans"'):
            (folder / "trace.json").write_text(text, encoding="utf-8")
        named = FILE_NAME.match(text) if kind != "diff" else None
        if named:
            file = folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            names.append(named[1])
    return names


def simkit(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command of a page: simkit, or pytest with no plugin but simkit's."""
    words = shlex.split(command)
    assert words[0] in ("simkit", "pytest")
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        # A command that a page's command starts is this environment's too.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p simkit.pytest_plugin -p no:cacheprovider",
    }
    return subprocess.run(
        [sys.executable, "-u", "-m", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
        check=False,
    )  # fmt: skip


STEP_BY_STEP = [page for page in PAGES if any(kind == "diff" for kind, _ in blocks(page))]
"""Pages on which a file changes from one example to the next."""
NEEDING = {
    "claude-agent-sdk.md": "claude_agent_sdk",
    "frameworks.md": "llama_index",
    "google-adk.md": "google.adk",
    "litellm.md": "litellm",
    "remote-agents.md": "a2a",
}
"""Pages whose examples need a library that has an environment of its own in nox."""


def is_installed(page: Path) -> bool:
    """Whether what the examples of a page need is here."""
    with suppress(ModuleNotFoundError):  # The package around a module may be missing, too.
        return page.name not in NEEDING or find_spec(NEEDING[page.name]) is not None
    return False


CONSOLES = [
    pytest.param(page, text, id=f"{page.name}-{number}")
    for page in PAGES
    if page not in STEP_BY_STEP and is_installed(page)
    for number, (kind, text) in enumerate(blocks(page))
    if kind == "console"
]


@pytest.mark.golden
@pytest.mark.slow
@pytest.mark.parametrize(("page", "text"), CONSOLES)
def test_a_console_example_prints_what_the_page_says(page: Path, text: str, tmp_path: Path) -> None:
    write_files(page, tmp_path)

    assert_prints(page, text, tmp_path)


def assert_prints(page: Path, text: str, folder: Path) -> None:
    """Run the commands of a console example, and compare what they print with the page."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = simkit(command, folder)
        printed = SECONDS.sub("0.05", done.stdout)
        if printed.strip() != SECONDS.sub("0.05", expected).strip():
            body = SECONDS.sub("0.05", done.stdout.strip())
            assert_part_is(page, f"$ {command}\n{expected}", f"$ {command}\n{body}\n")


YAML = {
    page: [
        named[1]
        for kind, text in blocks(page)
        if kind == "yaml" and "# misspelt" not in text and (named := FILE_NAME.match(text))
    ]
    for page in PAGES
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page, names in YAML.items() if names], ids=lambda page: page.name
)
def test_the_yaml_examples_of_a_page_are_valid(
    page: Path, cwd: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(page, cwd)

    with pytest.raises(SystemExit) as stop:
        main(["validate", *YAML[page]])

    assert not stop.value.code, capsys.readouterr()


@pytest.mark.slow
def test_the_readme_example_holds_once_the_section_is_added(tmp_path: Path) -> None:
    write_files(ROOT / "README.md", tmp_path)
    file = tmp_path / "refund.scenario.yaml"
    text = file.read_text(encoding="utf-8")
    fixed = text.replace(
        "context: [instructions, history, current_message]",
        "context: [instructions, history, handoff, current_message]",
    )
    file.write_text(fixed, encoding="utf-8")

    done = simkit("simkit replay refund.scenario.yaml", tmp_path)

    assert fixed != text
    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_every_page_that_the_readme_names_is_there() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))

    missing = [link for link in links if not (ROOT / link).exists()]

    assert missing == []


ON_PIPELINES = [REFERENCE / f"{name}.md" for name in ("pipelines", "contexts", "flows")]
LINT_LINE = re.compile(r"- [A-Z]{3}-\d\d ")


@pytest.mark.golden
def test_the_page_on_lints_says_what_the_catalogue_says() -> None:
    lines = [
        f"- {name} {lint.name} ({lint.severity}): {lint.rule}. → {lint.fix}"
        for name, lint in LINTS.items()
    ]

    assert_tables_are(REFERENCE / "lints.md", LINT_LINE, [lines])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [HOW_TO / "scenarios.md", *ON_PIPELINES, HOW_TO / "faults.md"],
    ids=lambda page: page.name,
)
def test_the_examples_of_the_pages_hold(tmp_path: Path, page: Path) -> None:
    files = [name for name in write_files(page, tmp_path) if name.endswith(".scenario.yaml")]

    done = simkit(f"simkit replay {' '.join(files)}", tmp_path)

    assert done.returncode == 0, done.stdout
    assert "warning" not in done.stdout


def test_every_yaml_block_of_the_pages_on_pipelines_is_a_file_that_loads() -> None:
    results = [text for page in ON_PIPELINES for kind, text in blocks(page) if kind == "yaml"]

    assert [text for text in results if not FILE_NAME.match(text)] == []


MIGRATIONS = sorted((HOW_TO / "migrating").glob("*.md"))
LIBRARIES = {"langchain.md": "langchain_core", "pytest-recording.md": "pytest_recording"}
"""Pages whose old test runs too: what it needs is in the extra `dev`."""
ANY_FILE = re.compile(r"^# (\S+\.(?:yaml|py))\n")


def pytest_in(folder: Path, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Writes the files of a page, whatever they are, and runs pytest on them."""
    for _, text in blocks(page):
        named = ANY_FILE.match(text)
        if named:
            file = folder / named[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    # Other plugins cost seconds; what they do beside simkit is tested in tests/compat/.
    plugins = ("-p", "simkit.pytest_plugin", "-p", "no:cacheprovider", "-W", "error")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "COLUMNS": "100", "NO_COLOR": "1",
        },
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("page", MIGRATIONS, ids=lambda page: page.name)
def test_the_tests_of_a_migration_page_hold(page: Path, tmp_path: Path) -> None:
    library = LIBRARIES.get(page.name)
    is_there = library is not None and find_spec(library) is not None
    options = ["--ignore=test_before.py"] if not is_there else []
    if is_there and library == "pytest_recording":
        options = ["-p", "pytest_recording.plugin"]

    done = pytest_in(tmp_path, page, *options)

    assert f"{2 if is_there else 1} passed in" in done.stdout, done.stdout


PYTHON = HOW_TO / "python.md"


@pytest.mark.slow
def test_the_tests_of_the_page_on_python_hold_but_for_the_one_that_it_shows(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, PYTHON, "--tb=short")
    (output,) = [text for kind, text in blocks(PYTHON) if kind == "text"]

    assert done.stdout.splitlines()[-1].startswith("1 failed, 6 passed in")
    assert output in done.stdout


VCR = HOW_TO / "vcr.md"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pytest_recording") is None, reason="needs pytest-recording")
def test_the_page_on_vcrpy_shows_the_miss_of_its_second_test(tmp_path: Path) -> None:
    done = pytest_in(tmp_path, VCR, "-p", "pytest_recording.plugin")
    (output,) = [text for kind, text in blocks(VCR) if kind == "text"]

    assert re.search(r"^1 failed, 1 passed in", done.stdout, re.MULTILINE), done.stdout
    texts = [line.removeprefix("E").strip() for line in done.stdout.splitlines()]
    start = texts.index(output.splitlines()[0])
    expected = [line.strip() for line in output.splitlines()]
    assert texts[start : start + len(expected)] == expected


def test_the_configuration_of_the_page_on_vcrpy_is_one(tmp_path: Path) -> None:
    (settings,) = [text for _, text in blocks(VCR) if text.startswith("# settings.py")]
    names: dict[str, Any] = {}

    exec(settings, names)

    config = names["recorder"].get_merged_config(path="a")
    assert [matcher.__name__ for matcher in config["match_on"]] == [
        "method", "matches_model_request", "is_nearest_recording",
    ]  # fmt: skip


def test_every_migration_page_says_what_maps_to_what_and_what_is_missing() -> None:
    heads = {
        page.name: re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        for page in MIGRATIONS
    }

    texts = ["Before", "After", "What is not there yet"]
    names = ("langchain", "openai-agents", "pytest-recording", "tavern")
    assert heads == {f"{name}.md": texts for name in names}


MISTAKES_HEAD = "| instead of | write | and simkit reports |"
MISTAKE = re.compile(r"^\| `(.+?)` \| (?:`(.+?)`|—) \| (.+) \|$")


def mistakes(page: Path, suffix: str) -> list[tuple[str, str, str, str]]:
    """Returns file, what stands in it, what is written instead, and what that is answered with."""
    results = []
    file, inside = "", False
    for line in page.read_text(encoding="utf-8").splitlines():
        named = FILE_NAME.match(f"{line}\n")
        if named and named[1].endswith(suffix):
            file = named[1]
        if inside and line.startswith("| "):
            row = MISTAKE.match(line)
            assert row, f"no row that this test can read: {line}"
            results.append((file, row[1], row[2] or "", row[3]))
        inside = line == MISTAKES_HEAD or (inside and line.startswith("|"))
    return results


@pytest.mark.slow
def test_every_mistake_of_the_pages_on_pipelines_is_answered_as_it_says(tmp_path: Path) -> None:
    for page in ON_PIPELINES:
        write_files(page, tmp_path)
    rows = [row for page in ON_PIPELINES for row in mistakes(page, ".scenario.yaml")]
    for place, (file, right, wrong, _) in enumerate(rows):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{right!r} is in {file} {text.count(right)} times"
        name = tmp_path / "mistakes" / f"{place}.scenario.yaml"
        name.parent.mkdir(exist_ok=True)
        name.write_text(text.replace(right, wrong), encoding="utf-8")

    printed = simkit("simkit replay mistakes", tmp_path).stdout
    words = iter(re.split(r"^mistakes/(\d+)\.scenario\.yaml\n", printed, flags=re.MULTILINE)[1:])
    answers = {int(place): " ".join(text.split()) for place, text in zip(words, words, strict=True)}
    missing = [row for place, row in enumerate(rows) if row[3] not in answers[place]]

    assert missing == []


@pytest.mark.slow
def test_every_mistake_of_a_program_is_answered_as_the_page_on_serving_says(tmp_path: Path) -> None:
    page = HOW_TO / "serving.md"
    rows = mistakes(page, "desk.py")
    for place, (file, right, wrong, _) in enumerate(rows):
        folder = tmp_path / str(place)
        folder.mkdir()
        write_files(page, folder)
        text = (folder / file).read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{right!r} is in {file} {text.count(right)} times"
        (folder / file).write_text(text.replace(right, wrong), encoding="utf-8")

    printed = [
        simkit("simkit replay desk.scenario.yaml", tmp_path / str(n)).stdout
        for n in range(len(rows))
    ]
    missing = [
        row for row, text in zip(rows, printed, strict=True) if row[3] not in " ".join(text.split())
    ]

    assert rows
    assert missing == []


PYTEST = HOW_TO / "pytest.md"


@pytest.mark.slow
def test_the_workflow_of_the_page_on_pytest_runs(tmp_path: Path) -> None:
    for checkout in (tmp_path, tmp_path / "base"):
        write_files(PYTEST, checkout)
    (workflow,) = [text for _, text in blocks(PYTEST) if text.startswith("# .github/")]
    steps = yaml.safe_load(workflow)["jobs"]["agents"]["steps"]
    commands = [f"({step['run']})" for step in steps if "pip" not in step.get("run", "pip")]
    # What a workflow installs is there already; what was installed has names of its own there.
    call = '{0}() {{ "{1}" -m {0} "$@"; }}\n'
    programs = "".join(call.format(name, sys.executable) for name in ("simkit", "pytest"))
    done = subprocess.run(
        ["bash", "-c", programs + "\n".join(commands)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
        env={
            **os.environ, "PYTHONPATH": str(ROOT), "GITHUB_ACTIONS": "true",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "RUNNER_TEMP": str(tmp_path),
            "GITHUB_WORKSPACE": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "-p simkit.pytest_plugin",
        },
    )  # fmt: skip

    summary = (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert "\n::error file=kiosk.scenario.yaml,line=14,col=64,title=the clerk says" in done.stdout
    assert "simkit: against " in done.stdout
    assert "## simkit: 2 scenarios, 1 passed, 1 failed" in summary
    assert "2 scenarios: 2 equal" in summary


@pytest.mark.slow
def test_junit_says_what_the_page_on_pytest_shows(tmp_path: Path) -> None:
    write_files(PYTEST, tmp_path)
    (output,) = [text for kind, text in blocks(PYTEST) if kind == "xml"]

    simkit("pytest -q --junitxml=junit.xml", tmp_path)

    report = (tmp_path / "junit.xml").read_text(encoding="utf-8").replace(" />", "/>")
    assert output.strip() in report


GLOSSARY = DOCS / "glossary.md"


ENTRY = re.compile(r"- \[\*\*(.+?)\*\*\]\((.+?)\): (.+) \(not (.+?)\)\.")


def glossary() -> list[tuple[str, str, str, list[str]]]:
    """Returns the lines of the glossary: word, meaning, where it is seen, other words."""
    lines = [line for line in GLOSSARY.read_text("utf-8").splitlines() if line.startswith("- ")]
    entries = [entry for line in lines if (entry := ENTRY.fullmatch(line))]
    assert len(entries) == len(lines) > 0
    return [(entry[1], entry[3], entry[2], entry[4].split(", ")) for entry in entries]


def test_a_word_of_the_glossary_has_one_line() -> None:
    words = [word for word, _, _, _ in glossary()]

    assert [word for word in words if words.count(word) > 1] == []


def test_a_word_is_not_listed_as_another_word_for_itself() -> None:
    assert [word for word, _, _, others in glossary() if {word, f"{word}s"} & set(others)] == []


def anchors(page: Path) -> set[str]:
    """Returns what links may name in a page: its headings, as GitHub writes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


LINKING = sorted({*PAGES, *ROOT.glob("*.md")})


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_to_a_page_and_heading_that_exist(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = re.findall(r"\]\(((?!https?:)[^)#\s]*)(?:#([^)\s]+))?\)", text)

    targets = [(page.parent / name if name else page, anchor) for name, anchor in links]
    missing = [
        f"{target.name}#{anchor}"
        for target, anchor in targets
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert missing == []


@pytest.mark.golden
@pytest.mark.slow(20)
@pytest.mark.parametrize("page", sample_by_day(STEP_BY_STEP, 6), ids=lambda page: page.name)
def test_a_page_that_changes_its_files_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    for kind, text in blocks(page):
        named = ANY_FILE.match(text)
        if kind == "diff":
            assert named is not None
            apply_diff(tmp_path / named[1], text.partition("\n")[2])
        elif kind == "console":
            assert_prints(page, text, tmp_path)
        elif kind == "text" and named:
            scenario = (tmp_path / named[1]).read_text(encoding="utf-8")
            assert_part_is(page, text, f"# {named[1]}\n{scenario}")
        elif named and "/" not in named[1]:
            (tmp_path / named[1]).write_text(text, encoding="utf-8")


def test_the_commands_of_the_tutorials_workflow_are_those_that_it_shows() -> None:
    (workflow,) = [text for _, text in blocks(TUTORIAL) if text.startswith("# .github/")]
    steps = yaml.safe_load(workflow)["jobs"]["scenarios"]["steps"]

    commands = [step["run"] for step in steps if "run" in step]
    assert commands == [
        "pip install vendor/agent_simkit-0.1.0-py3-none-any.whl openai",
        "simkit validate --strict .",
        "pytest -q",
    ]


def test_the_tutorial_explains_the_words_as_the_glossary_does() -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    words = re.findall(r"^\| (\w+) \| (.+?) \| .+ \|$", text, re.MULTILINE)[1:]

    assert [word for word, _ in words] == ["context", "run", "section", "channel"]
    assert {"context", "section", "channel", "agent run"} <= {word for word, *_ in glossary()}
    assert [word for word, _ in words if f"**{word}**" not in text.lower()] == []
