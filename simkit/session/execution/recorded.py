"""The cassette of a scenario: its file, and the options for answering or recording."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from simkit.core.errors import ReferenceInvalid
from simkit.core.text import counted, late_pattern, shell_word
from simkit.language.yaml import Document, SourcePath
from simkit.spec.scenario.apps import App, CassetteOptions
from simkit.spec.scenario.files import Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX

if TYPE_CHECKING:
    from simkit.capture.cassettes.traffic import Mode, Traffic, TrafficObserver
    from simkit.spec.scenario.simulations import Simulation

FOLDER: Final = "cassettes"
ENDINGS: Final = (".yaml", ".yml", ".json", ".gz")
_RUN: Final = late_pattern(r", run \d+$")
_TOPS: Final = (".git", "pyproject.toml")
"""Files that mark a project's own folder, above which nothing is searched."""


class Recording(msgspec.Struct, frozen=True):
    """The options for real traffic of a run."""

    mode: Mode = "none"
    now: str = ""
    """The time of recording, ISO 8601."""
    keeps_failed: bool = False
    """Whether the cassette is written even if the scenario failed."""
    leaves_project: bool = False
    """Whether the cassette may be written outside the scenario's project."""
    file: Path | None = None
    """The cassette to write instead of the scenario's own."""
    first_live_turn: int = 1
    """The first turn whose requests are sent; ``earlier`` answers those of the turns before."""
    earlier: Path | None = None
    """The cassette of the turns before; None if their reply lines answer everything."""
    observer: TrafficObserver | None = None
    """The object that learns of each request that is sent, and of its answer."""


REPLAY: Final = Recording()


def cassette_path(prepared: Prepared) -> Path | None:
    """Return the file of a scenario's cassette: beside it, or in a folder ``cassettes``.

    The nearest folder above the scenario wins, up to the project's own. If no file exists, this is
    where one would be written.
    """
    options = prepared.scenario.cassette
    if options is None:
        return None
    return cassette_file(Path(prepared.document.file).parent, options.file)


def cassette_file(folder: Path, named: str) -> Path:
    """Return the file of a cassette that a file in a folder names."""
    name = Path(named)
    if not name.name.endswith(ENDINGS):
        name = name.with_name(f"{name.name}.yaml")
    if os.path.exists(folder / name) or (len(name.parts) > 1 and name.parts[0] in (".", "..")):
        return folder / name
    folders = [above / FOLDER for above in _above(folder)]
    folders_there = [folder for folder in folders if folder.is_dir()]
    return next(
        (f / name for f in folders_there if os.path.exists(f / name)),
        (folders_there or folders)[0] / name,
    )


def _above(start: Path) -> Iterator[Path]:
    """Yield a folder and those above it, relative to the working directory."""
    root = Path.cwd()
    for folder in (start.resolve(), *start.resolve().parents):
        yield folder.relative_to(root) if folder.is_relative_to(root) else folder
        if any(os.path.exists(folder / top) for top in _TOPS):
            return


def _check_recorded_tools(prepared: Prepared) -> None:
    """Raise SourceError if `record.tools` names a tool whose function simkit cannot replace."""
    scenario, document = prepared.scenario, prepared.document
    if scenario.record.tools and not isinstance(prepared.pipeline, App):
        raise document.error(
            ("record", "tools"),
            "tools of a declared pipeline are not recorded: they are answered",
            advice="`tool_results` say what they return; else their functions are called.",
            key=True,
        )
    for number, tool in enumerate(scenario.record.tools):
        if tool not in scenario.app.tools:
            raise document.error(
                ("record", "tools", number),
                f"simkit does not know the function of tool `{tool}`",
                word=tool,
                known=tuple(scenario.app.tools),
                advice=f"Name it: `app: {{tools: {{{tool}: module:function}}}}`.",
            )


def traffic_of(prepared: Prepared, recording: Recording) -> Traffic | None:
    """Return the cassette traffic of a scenario; None if it has no cassette.

    Raise CassetteInvalid for an unreadable file, SourceError for invalid options.
    """
    path = recording.file or cassette_path(prepared)
    if path is None:
        return None
    # Only a scenario with a cassette needs what reads cassettes.
    from simkit.capture.cassettes import Keying, absent, load
    from simkit.capture.cassettes.traffic import Terms, Traffic

    scenario, document = prepared.scenario, prepared.document
    options = scenario.cassette
    assert isinstance(options, CassetteOptions)
    redactor = prepared.redactor(os.environ)
    try:
        keying = Keying(redactor, scenario.record.volatile, scenario.record.capture)
    except ReferenceInvalid as problem:
        raise document.error(("record",), str(problem)) from None
    _check_recorded_tools(prepared)
    is_own = recording.file is None and not recording.leaves_project
    if recording.mode not in ("none", "verify") and is_own:
        check_inside(path, prepared.document, ("cassette",), "or say `simkit record --outside`")
    source = recording.earlier or path
    cassette = load(source) if os.path.lexists(source) else absent(source)
    item = prepared.item
    if not cassette.is_there and recording.mode in ("none", "verify"):
        at = ("cassette", "file") if isinstance(document.data["cassette"], dict) else ("cassette",)
        raise document.error(
            at,
            f"there is no cassette `{path.name}`",
            advice=f"Record it: {_record_command(item.file, item.name, 'once')}",
        )
    terms = Terms(
        scenario=item.name,
        policy=options.policy,
        mode=recording.mode,
        now=recording.now,
        tools=frozenset(scenario.record.tools),
        first_live_turn=recording.first_live_turn,
        observer=recording.observer,
        cassette=_in_project(source, prepared),
        again=_record_command(_in_project(Path(item.file), prepared), item.name),
    )
    return Traffic(cassette, keying, terms)


def user_cassettes(prepared: Prepared, simulation: Simulation) -> dict[str, Path]:
    """Return the cassette of each simulated user with a model, by the user's name."""
    folder = Path(prepared.document.file).parent
    users = simulation.users.items()
    return {name: cassette_file(folder, user.cassette) for name, user in users if user.cassette}


def run_name(simulation: str, number: int) -> str:
    """Return the name of a simulation's run in cassettes."""
    return f"{simulation}, run {number}"


def simulation_of(run: str) -> str:
    """Return the simulation in the name of a run."""
    return _RUN.sub("", run)


def check_inside(path: Path, document: Document, at: SourcePath, advice: str = "") -> None:
    """Raise SourceError for a cassette that would be written outside the project.

    A scenario, and the file that it names, may come from somebody else. Links are followed.
    ``at`` is the place that names the file, ``advice`` what else can be done.
    """
    folder = Path(document.file).resolve().parent
    top = _top(folder)
    root = top or (Path.cwd() if folder.is_relative_to(Path.cwd()) else folder)
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise document.error(
            at,
            f"`{path}` would be written outside the project, which is `{root}`",
            advice=f"Name a file inside{f', {advice}' if advice else ''}.",
        )


def _record_command(file: str, name: str, mode: str = "all") -> str:
    """Return the command that records a scenario's cassette, quoted for the shell.

    Features and tests in Python replay what a scenario file has recorded.
    """
    if not file.endswith((SCENARIO_SUFFIX, PIPELINE_SUFFIX)):
        return "simkit record, with a scenario file that names this cassette and says the same"
    return f"simkit record {shell_word(f'{file}::{name}')} --mode {mode}"


def _in_project(file: Path, prepared: Prepared) -> str:
    """Return a file's name in traces: relative to its project, else to its scenario.

    A trace is the same wherever the project is, and from wherever it is run.
    """
    folder = Path(prepared.document.file).resolve().parent
    return Path(os.path.relpath(file.resolve(), _top(folder) or folder)).as_posix()


def _top(folder: Path) -> Path | None:
    """Return the project's own folder; None if nothing marks it."""
    folders = (folder, *folder.parents)
    return next(
        (ancestor for ancestor in folders if any(os.path.exists(ancestor / top) for top in _TOPS)),
        None,
    )


def what_was_recorded(traffic: Traffic, path: Path, saved_count: int | None) -> str:
    """Return a text about the recorded traffic; ``saved_count`` is None if the scenario failed."""
    if traffic.mode in ("none", "verify"):
        return ""
    if traffic.mode == "once" and not traffic.is_live:
        return f"nothing was recorded: {path} answered; --mode all records it anew"
    if saved_count is None:
        return "nothing was written, since the scenario failed; --keep-failed writes even then"
    lost = traffic.unanswered()
    never = f"{counted(len(lost), 'request')} had no answer, or only the beginning of one"
    listed = "".join(f"\n  {line}" for line in dict.fromkeys(lost))
    if not saved_count:
        why = f"{never}:{listed}" if lost else "nothing was sent"
        return f"nothing was recorded: {why}"
    done = f"recorded: {counted(saved_count, 'interaction')} in {path}"
    return f"{done}; {never}:{listed}" if lost else done
