"""Files of a first project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from simkit.capture.http.places import is_library
from simkit.cli.init.found_tests import tests_below
from simkit.cli.init.project import TEXTS, Project
from simkit.core.answers import note_written
from simkit.core.errors import SimkitError
from simkit.core.requirements import DISTRIBUTION
from simkit.core.text import late_pattern, shell_word
from simkit.spec.scenario.code_names import file_of
from simkit.spec.scenario.writing import scalar


def write_new(file: Path, content: str | bytes) -> bool:
    """Write a new file with its folders, and return whether it is new; raise SimkitError if it
    cannot."""
    make_folder(file.parent)
    if os.path.lexists(file):
        return False
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        try:
            draft.write_bytes(content if isinstance(content, bytes) else content.encode())
            # Unlike a rename, a link never replaces a file that appeared meanwhile.
            os.link(draft, file)
        finally:
            draft.unlink(missing_ok=True)
    except FileExistsError:
        return False
    except OSError as problem:
        raise SimkitError(f"{file}: it cannot be written: {problem.strerror}") from None
    note_written(file)
    return True


SKILL: Final = Path(__file__).with_name("skills") / "simkit" / "SKILL.md"
"""The skill for coding agents, as `simkit init --skill` writes it."""
_FIRST_PROJECT: Final = Path(__file__).with_name("first_project")
_VENDORED: Final = "vendor"
"""The folder in a project of a copy of the wheel from which simkit was installed."""


def _requirement(root: Path) -> tuple[str, str, Path | None]:
    """Return what pip installs to get the simkit that is installed here, and what is said of it.

    That is a release, a commit or an archive at a URL, or a wheel in the repository, to which one
    from elsewhere on this machine, the third value, is copied. Of a folder CI has nothing.
    """
    try:
        simkit = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return DISTRIBUTION, "", None
    release = f"{DISTRIBUTION}=={simkit.version}"
    origin = json.loads(simkit.read_text("direct_url.json") or "{}")
    address = urlsplit(origin.get("url", ""))
    place = address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()
    if vcs := origin.get("vcs_info"):
        return f"{DISTRIBUTION} @ {vcs['vcs']}+{place}@{vcs['commit_id']}", "", None
    if address.scheme in ("http", "https"):
        return f"{DISTRIBUTION} @ {place}", "", None
    file = Path(url2pathname(address.path))
    if address.scheme != "file":
        return release, "", None
    if file.is_file() and file.is_relative_to(root):
        return f"./{file.relative_to(root).as_posix()}", "", None
    if file.is_file():
        copy = f"{_VENDORED}/{file.name}"
        return (f"./{copy}", "A copy of the wheel from which simkit was installed here", file)
    return (
        release,
        (
            "simkit was installed from a folder of this machine: name a release, a URL, or a wheel "
            "in this repository"
        ),
        None,
    )


def workflow_text(project: Project, commands: Iterable[str]) -> str:
    """Return a workflow for GitHub that installs a project and runs the commands of its tests."""
    requirement, note, _ = _requirement(project.root.resolve())
    simkit = _step(f"python -m pip install {shell_word(requirement)}")
    folder = os.path.relpath(project.root.resolve(), project.top.resolve()).replace(os.sep, "/")
    template = (_FIRST_PROJECT / "workflow.yml").read_text(encoding="utf-8")
    return template.format(
        folder="" if folder == "." else TEXTS["in_folder"].format(folder=folder),
        python=project.python,
        install="".join(map(_step, project.install)),
        simkit=f"      # {note}.\n{simkit}" if note else simkit,
        checks="".join(map(_step, commands)),
    )


def _step(line: str) -> str:
    return f"      - run: {scalar(line)}\n"


SAMPLE: Final[Mapping[str, str]] = {
    name: (_FIRST_PROJECT / Path(name).name).read_text(encoding="utf-8")
    for name in (
        "scenarios/support.pipeline.yaml",
        "scenarios/refund.scenario.yaml",
        "features/refund.feature",
    )
}
"""The files of a first project, by their names below its folder, where there is no app yet."""


def files_around(project: Project) -> dict[str, str | bytes]:
    """Return the files that a project's scenarios and features have around them, by their names.

    A project without any has nothing that a workflow could run.
    """
    wheel = _requirement(project.root.resolve())[2]
    top = os.path.relpath(project.top.resolve(), project.root.resolve()).replace(os.sep, "/")
    prefix = "" if top == "." else f"{top}/"
    files: dict[str, str | bytes] = {}
    if (tests := tests_below(project.root)).are_there:
        workflow = workflow_text(project, tests.commands(in_ci=True))
        files[f"{prefix}.github/workflows/simkit.yml"] = workflow
        files |= {f"{_VENDORED}/{wheel.name}": wheel.read_bytes()} if wheel is not None else {}
    return files


def written_files(root: Path, files: Mapping[str, str | bytes]) -> Iterator[str]:
    """Write those of the files that the folder does not have; yield the actions, file by file.

    Raise SimkitError at the first file or folder that cannot be written; the files yielded before
    exist.
    """
    make_folder(root)
    for name, content in files.items():
        file = root / name
        is_new = write_new(file, content)
        yield f"{file}: {'written' if is_new else 'there already, left as it is'}"


_APP: Final = late_pattern(r"[\w.]+:[\w.]+")


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where it is not; raise SimkitError if it cannot be."""
    if _APP.fullmatch(str(folder)) and not folder.exists():
        raise SimkitError(f"there is no folder `{folder}`. Did you mean --app {folder}?")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise SimkitError(
            f"{folder}: this is not a folder, and nothing is overwritten\n"
            "  Name another folder, or move it away."
        ) from None
    except OSError as problem:
        raise SimkitError(f"{folder}: the folder cannot be made: {problem.strerror}") from None


def replayed_alone(file: str) -> str:
    """Replay a scenario file in a new process; return the error, empty if it holds.

    The process has no ``PYTHON…`` variable of this one, and does not import from its working
    directory, so that it finds only what a user would have.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    done = subprocess.run(
        [sys.executable, "-P", "-m", "simkit", "replay", "-q", file],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    return f"{done.stdout}{done.stderr}".strip() if done.returncode else ""


def root_of(pipeline: str, folders: Iterable[Path]) -> Path | None:
    """Return the folder from which a pipeline's module is imported; None for an installed one.

    It is looked for in ``folders`` first.
    """
    module = pipeline.partition(":")[0]
    file = file_of(module, [*map(str, folders), *sys.path])
    if file is None or is_library(str(file)):
        return None
    package = file.parent if file.name == "__init__.py" else file
    return package.resolve().parents[module.count(".")]
