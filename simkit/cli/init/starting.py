"""The steps of ``simkit init``: look at the folder, write what is missing, say what comes next."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Final

import click
import msgspec

from simkit.adapters.libraries import FRAMEWORKS, PROVIDERS, installed
from simkit.cli.init.files import SAMPLE, files_around, ignoring, make_folder, written_files
from simkit.cli.init.first_test import DEFAULT_MESSAGE, AppRequest, write_for_app
from simkit.cli.init.project import FoundApp, Project, look_at
from simkit.core.errors import SimkitError
from simkit.core.output import echo
from simkit.core.text import shell_word

_APPS_MAX: Final = 8


def start(folder: str, request: AppRequest, *, is_sample: bool) -> int:
    """Write a first test into a folder; return the exit code. Raises SimkitError."""
    if is_sample and request.name:
        raise click.UsageError("--sample writes another app; leave out --app.")
    root = Path(folder)
    make_folder(root)
    with contextlib.chdir(root):
        project = look_at(Path.cwd())
    if not request.name and not is_sample:
        request = _with_app(request, project)
    is_bare = request == AppRequest(name="", messages=())
    if not request.name and not is_bare:
        raise click.UsageError("name the app that is to be run: --app MODULE:NAME.")
    if not request.name:
        for line in written_files(root, {**SAMPLE, **files_around(project)}):
            echo(line)
    else:
        request = msgspec.structs.replace(request, messages=request.messages or (DEFAULT_MESSAGE,))
        with contextlib.chdir(root):
            around = written_files(Path(), files_around(project))
            for line in itertools.chain(write_for_app(request, project), around):
                echo(line)
    echo(ignoring(root / ".gitignore"))
    echo(f"Next, in {folder}:" if folder != "." else "Next:")
    scenarios, features = shell_word(str(project.scenarios)), shell_word(str(project.features))
    echo(f"  simkit replay {scenarios}")
    echo(f"  python -m pytest {scenarios} {features}")
    return 0


def _with_app(request: AppRequest, project: Project) -> AppRequest:
    """Return the request with the one app that is there; raise SimkitError for several."""
    apps = [app for app in project.apps if app.is_certain] or [*project.apps]
    if not apps:
        return request
    names = ", ".join(f"{name} {version}" for name, version in installed((*FRAMEWORKS, *PROVIDERS)))
    if names:
        echo(f"installed: {names}")
    if len(apps) > 1:
        raise SimkitError(
            "there are several apps here\n"
            "  Name one:\n"
            + "\n".join(_choice(app) for app in apps[:_APPS_MAX])
            + ("\n    …" if len(apps) > _APPS_MAX else "")
            + "\n  Or write a sample project: `simkit init --sample`."
        )
    echo(f"app: {apps[0].name} ({apps[0].why})")
    return msgspec.structs.replace(request, name=apps[0].name)


def _choice(app: FoundApp) -> str:
    return f"    simkit init --app {shell_word(app.name)}   # {app.why}"
