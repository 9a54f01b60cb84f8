"""House rules: the direction of imports, no trace of a machine, short documents."""

from __future__ import annotations

import ast
import io
import itertools
import re
import shutil
import subprocess
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.near import import_statements
from tests.processes import run_python

ROOT = Path(__file__).resolve().parent.parent
PURE = {
    *("checks", "core/messages", "language/json_schema", "language/matching", "language/paths"),
    *("providers", "runtime/context", "trace"),
}
JUDGES = {"checks", "report", "viewer"}
MAKERS = {"adapters", "capture", "runtime"}

# Put together from parts, so that this file holds none of what it looks for.
MACHINE_PATH = re.compile(
    r"(?<![\w.$}~-])/(?:" + "|".join(["work", "root", "home", "farm", "Users", "opt"]) + r")/\w"
)
REGISTRY_HOST = re.compile(
    "|".join(
        re.escape(".".join(parts))
        for parts in [
            ("pypi", "org"),
            ("pythonhosted", "org"),
            ("npmjs", "org"),
            ("npmjs", "com"),
            ("anaconda", "org"),
        ]
    )
)


def python(code: str, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that imports from ``cwd`` first."""
    return run_python("-c", code, *arguments, folder=cwd)


def lint_imports(tree: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the tree, and leave no cache behind."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return python(code, "--no-cache", cwd=tree)


def contract(name: str) -> dict[str, list[str]]:
    """One import contract of pyproject.toml."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    return next(contract for contract in contracts if contract["id"] == name)


def existing(names: set[str]) -> set[str]:
    """Those of the named modules that the tree has."""
    package = ROOT / "simkit"
    return {
        f"simkit.{name.replace('/', '.')}"
        for name in names
        if (package / f"{name}.py").exists() or (package / name / "__init__.py").exists()
    }


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file; to keep all of them costs the collector more than to parse."""
    return ast.parse(path.read_text(encoding="utf-8"))


def project_files() -> list[Path]:
    """Every file that is, or would be, committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    # A file deleted in the working tree is still listed.
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def traces_of_a_machine(text: str) -> list[str]:
    """The lines that name a path of one machine or the host of a package registry."""
    return [
        line
        for line in text.splitlines()
        if MACHINE_PATH.search(line) or REGISTRY_HOST.search(line)
    ]


BREAKS = {
    "core/errors.py": "import simkit.language.paths",
    "unplaced.py": "",
    "language/matching/values.py": "import random",
    "checks/__init__.py": "import simkit.runtime",
}
"""An import upwards, a module without a place, chance in matching, a check that runs."""


def test_import_contracts_can_break(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "simkit", tmp_path / "simkit")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, line in BREAKS.items():
        with (tmp_path / "simkit" / file).open("a", encoding="utf-8") as module:
            module.write(f"\n{line}\n")

    checked = lint_imports(tmp_path)

    assert checked.returncode == 1
    assert "0 kept, 3 broken" in checked.stdout
    for named in (
        "simkit.core.errors -> simkit.language.paths",
        "simkit.unplaced",
        "random",
        "runtime",
    ):
        assert named in checked.stdout


def test_contracts_name_every_module_they_are_about() -> None:
    pure, judges = contract("pure"), contract("judges")

    assert set(pure["source_modules"]) == existing(PURE)
    assert set(judges["source_modules"]) == existing(JUDGES)
    assert set(judges["forbidden_modules"]) == existing(MAKERS)


def test_no_file_names_a_machine_or_a_registry() -> None:
    files = project_files()

    machines = {
        str(file.relative_to(ROOT)): lines
        for file in files
        if (lines := traces_of_a_machine(file.read_text(encoding="utf-8", errors="ignore")))
    }
    assert files
    assert machines == {}


@pytest.mark.parametrize(
    "line",
    [
        "see " + "/".join(["", "home", "someone", "notes.md"]),
        "'" + "/".join(["", "work", "main"]) + "'",
        "url = https://" + ".".join(["files", "pythonhosted", "org"]) + "/packages",
    ],
)
def test_a_machine_path_or_registry_host_is_noticed(line: str) -> None:
    assert traces_of_a_machine(f"first\n{line}\nlast") == [line]


@pytest.mark.parametrize(
    "line", ["tests/work/x", "${dir}/home/x", "https://example.com/home/x", "the word/work"]
)
def test_a_relative_path_is_not_a_machine_path(line: str) -> None:
    assert traces_of_a_machine(line) == []


def test_one_function_quotes_words_of_commands() -> None:
    quoting = [
        str(file.relative_to(ROOT))
        for file in sorted((ROOT / "simkit").rglob("*.py"))
        if "shlex.quote(" in file.read_text(encoding="utf-8")
    ]

    assert quoting == ["simkit/core/text.py"]


def test_no_file_of_a_run_lies_beside_the_documents() -> None:
    top = {file.name for file in project_files() if file.parent == ROOT}

    strangers = {name for name in top if not name.startswith(".") and not name.endswith(".md")}
    assert strangers - {"LICENSE", "llms.txt", "noxfile.py", "pyproject.toml"} == set()


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "README.md"])
def test_top_level_document_exists(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8").strip()


def test_architecture_fits_two_screens() -> None:
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 80


def test_ci_runs_the_two_commands_of_the_readme_before_it_prepares_anything() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    commands = re.findall(r"^    (python -m pip install .*)$", readme, re.MULTILINE)
    steps = re.findall(r"^step (.*)$", script, re.MULTILINE)

    assert [command.partition(" && ")[2] for command in commands] == [
        "simkit replay scenarios",
        "python -m pytest -q -n auto",
    ]
    assert [step.split()[:2] for step in steps[:2]] == [["readme", "1"], ["readme", "2"]]


def test_simkit_has_sixteen_rooms_and_four_doors() -> None:
    rooms = {
        *("adapters", "capture", "checks", "cli", "core", "explore", "language", "providers"),
        *("report", "runtime", "session", "spec", "testing", "trace", "update", "viewer"),
    }
    doors = {"bdd", "matchers.py", "pytest_plugin", "vcr"}
    names = {path.name for path in (ROOT / "simkit").iterdir() if not path.name.startswith("__")}

    assert names - {"py.typed"} == rooms | doors


# Names

NO_NAMES = {
    *("one", "told", "heard", "asked", "said", "made", "found", "what", "there", "shown", "taken"),
    *("sent", "seen", "held", "kept", "meant", "spoken", "wanted", "here", "beside", "elsewhere"),
    *("whose", "who", "whom", "written", "gone", "came", "met", "begun"),
}
"""Participles and pronouns: such a name does not say which thing it is."""
FIELDS_OF_FILES = {
    # Fields of traces, which are files that users keep, and keys that they write.
    "simkit/trace/event_parts.py": {"what", "kept", "shown"},
    "simkit/trace/events.py": {"said", "shown"},
    "simkit/core/messages.py": {"what"},
    # "what" is the text of an error, a finding or a note, beside its "where".
    "simkit/core/errors.py": {"what"},
    "simkit/checks/claims.py": {"what"},
    "simkit/checks/unclaimed.py": {"what"},
    "simkit/checks/findings.py": {"what"},
    "simkit/language/yaml/documents.py": {"what"},
    "simkit/language/yaml/syntax.py": {"what"},
    "simkit/spec/validation/problems.py": {"what"},
    "simkit/update/proposals.py": {"what"},
    "simkit/viewer/document.py": {"what"},
    # The key of machine formats; people read "3 passed, 1 failed".
    "simkit/report/results.py": {"held"},
    # Keys of an application's state, which its trace holds.
    "tests/apps/langgraph_cases.py": {"seen"},
    "tests/apps/langgraph_engine.py": {"found"},
    "tests/apps/langgraph_states.py": {"found"},
    "tests/apps/langgraph_teams.py": {"said"},
    "tests/apps/pydantic_ai_desk.py": {"begun"},
}
"""Where one of these words is part of a format, or of the pair `where` and `what`."""


def names_defined_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, parameter, function, class and attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs) and node.name:
            yield node.lineno, node.name


def may_define(source: str) -> bool:
    """Return whether one of these words stands in code, so that the file is worth parsing."""
    code = re.sub(r'"""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|#.*', "", source)
    return re.search(rf"\b_*(?:{'|'.join(NO_NAMES)})_*\b", code, re.IGNORECASE) is not None


def test_a_name_is_a_noun_a_verb_or_a_question() -> None:
    # Not what else lies below them: `python -m tests.upstream` puts other people's code there.
    rooms = ("simkit/", "tests/")
    files = [
        path
        for path in project_files()
        if path.suffix == ".py" and path.relative_to(ROOT).as_posix().startswith(rooms)
    ]
    names = [
        (f"{path.relative_to(ROOT)}:{line}", name)
        for path in files
        if may_define(path.read_text(encoding="utf-8"))
        for line, name in names_defined_in(tree_of(path))
        if name.strip("_").lower() in NO_NAMES
        and name not in FIELDS_OF_FILES.get(str(path.relative_to(ROOT)), ())
    ]

    assert names == []


def test_few_files_are_so_small_that_they_belong_to_another() -> None:
    """Doors of packages are small because they only name what stands behind them."""
    small = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "simkit").rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
        and len(path.read_text(encoding="utf-8").splitlines()) < 40
    ]

    assert len(small) <= 10, small


def test_no_module_imports_itself_by_way_of_others() -> None:
    """Imports at the heads of modules form no ring, so that each module can be read by itself."""
    uses = {
        _module(path): set(_imported_by(path)) for path in sorted((ROOT / "simkit").rglob("*.py"))
    }
    uses = {name: {used for used in others if used in uses} for name, others in uses.items()}
    while leaves := [name for name, others in uses.items() if not others]:
        for leaf in leaves:
            del uses[leaf]
        for others in uses.values():
            others.difference_update(leaves)
    # What is left is in a ring, or uses one: only the former is used by what is left.
    while unused := set(uses) - {used for others in uses.values() for used in others}:
        for name in unused:
            del uses[name]

    assert sorted(uses) == []


OWN_ADAPTERS = ("google_adk", "langgraph", "openai_agents", "opentelemetry", "pydantic_ai")
IN_ONE_FILE = ("crewai", "llama_index", "strands")
BESIDE_THE_API = {
    # Both ask where a framework keeps something, and the first is asked without LangGraph, too.
    ("langgraph/driver.py", "simkit.adapters.modules"),
    *((f"{adapter}/compat.py", "simkit.core.compat") for adapter in OWN_ADAPTERS),
    # Spans of running applications and exported ones have the same names.
    ("opentelemetry/watch.py", "simkit.capture.telemetry.conventions"),
}


@pytest.mark.parametrize("adapter", [*OWN_ADAPTERS, *IN_ONE_FILE])
def test_an_own_adapter_imports_from_the_public_api_alone(adapter: str) -> None:
    folder = ROOT / "simkit" / "adapters" / adapter
    imported = [
        (f"{adapter}/{file.name}", name)
        for file in [*folder.glob("*.py")] or [folder.with_suffix(".py")]
        for node in ast.walk(tree_of(file))
        for name in _modules_in(node)
        if name.partition(".")[0] == "simkit"
    ]
    own = f"simkit.adapters.{adapter}"

    assert "simkit.adapters.api" in {name for _, name in imported}
    assert [
        (file, name)
        for file, name in imported
        if name != "simkit.adapters.api"
        and name != own
        and not name.startswith(f"{own}.")
        and (file, name) not in BESIDE_THE_API
    ] == []


def _modules_in(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module == "simkit.adapters":
        return [f"{node.module}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def _module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def _imported_by(path: Path) -> Iterator[str]:
    """Yield the modules that a file imports at its head, without what only type checkers read."""
    for node in import_statements(path.read_text(encoding="utf-8"), indents=""):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if (ROOT / name.replace(".", "/")).exists()]
            files = [name for name in inner if (ROOT / f"{name.replace('.', '/')}.py").exists()]
            yield from (*modules, *files) if modules or files else (node.module,)


# English

RIDDLE = re.compile(r"[`*]*(?:Whose|Whom|Who|What)\b")
PRIVATE_WORDS = re.compile(
    r"\b(told|telling|heard|hears?|hearing|whoever|witness(?:es)?|scribe|pilots?|cockpit|ears)\b"
    r"|\b(flies|flown|gates|in step|at work|passed over|held against|holds? against)\b"
    r"|\b(carr(?:y|ies|ied|ying) out|anew|what is there|what there is)\b",
    re.IGNORECASE,
)
"""Words that only the authors know, and turns that name no actor: see the glossary."""


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring, of each field's text and of each comment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.lineno, str(node.value.value)
    comments = {
        token.start[0]: token.string.lstrip("#").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    for line in comments:
        if line - 1 not in comments:
            lines = itertools.takewhile(comments.__contains__, itertools.count(line))
            yield line, " ".join(comments[number] for number in lines)


def riddles_in(text: str) -> list[str]:
    """Return the sentences that begin with a pronoun and ask nothing, and the private words."""
    prose = re.sub(r"``.*?``|`[^`]*`", "`…`", text, flags=re.DOTALL)
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", prose)]
    sentences = [part for each in paragraphs for part in re.split(r"(?<=[.?!:]) ", each)]
    riddles = [part for part in sentences if RIDDLE.match(part) and not part.endswith("?")]
    return riddles + [hit[0] for hit in PRIVATE_WORDS.finditer(" ".join(paragraphs))]


def may_riddle(source: str) -> bool:
    """Return whether such a word stands anywhere, so that the file is worth parsing."""
    text = " ".join(source.replace("#", " ").split())
    return bool(re.search(r"\b(?:Whose|Whom|Who|What)\b", text) or PRIVATE_WORDS.search(text))


def test_docstrings_and_comments_are_plain_sentences() -> None:
    riddles = {
        f"{path.relative_to(ROOT)}:{line}": words
        for path in sorted((ROOT / "simkit").rglob("*.py"))
        if may_riddle(source := path.read_text(encoding="utf-8"))
        for line, text in texts_of(source)
        if (words := riddles_in(text))
    }

    assert riddles == {}


@pytest.mark.parametrize(
    ("text", "riddles"),
    [
        ("What a run left.", ["What a run left."]),
        ("Return the run.\n\n    Whose it is, a rule\n    says.", ["Whose it is, a rule says."]),
        ("Return what the recorder was told.", ["told"]),
        ("Who answers? The agent whose call it is.", []),
        ("Return the ``told`` of a trace; `heard` is a name.", []),
    ],
)
def test_a_riddle_is_noticed(text: str, riddles: list[str]) -> None:
    assert riddles_in(text) == riddles
