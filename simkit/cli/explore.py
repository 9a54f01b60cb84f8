"""Implementation of ``simkit explore``: search, and write what was found as scenario files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from simkit.cli.console import Progress
from simkit.cli.init.files import write_new
from simkit.cli.selection import select
from simkit.core.errors import FunctionMissing, SimkitError, SourceError
from simkit.core.output import echo
from simkit.core.text import counted, short
from simkit.explore.choices import TurnPlan
from simkit.explore.conversations import ExploredRun, converse
from simkit.explore.scenarios import file_name, scenario_text, shows
from simkit.explore.search import Campaign, Discovery, reply_lines, search
from simkit.language.yaml import load_text
from simkit.spec.fields import FUNCTION_NAME
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import PIPELINE_SUFFIX, SCENARIO_SUFFIX, ScenarioCase
from simkit.spec.scenario.writing import scalar

USER_TEXTS: Final = (
    "Hello.",
    "My order is A-1042.",
    "Please cancel it.",
    "Why?",
    "Can you help me with order B-7, and with A-1042 too?",
)
"""A user's texts where no scenario has any."""
_HEAD: Final = "scenario: explored\nturns: [{user: Hello.}]\n"
MEMORY: Final = Path(".simkit", "explore")
"""Earlier discoveries are tried first; each pipeline has a folder of its own."""


class ExploreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The call of the command."""

    subject: str
    """A scenario, a pipeline file, or ``module:name``."""
    runs: int
    turns: int
    seed: int
    folder: str
    """Where scenario files are written."""


def explore(call: ExploreOptions) -> int:
    """Explore a pipeline; return the exit code: 1 if something was found."""
    prepared, texts = _subject(call.subject)
    progress = Progress()
    progress.begin(f"exploring {call.subject}")
    started = time.monotonic()

    def run(plans: Sequence[TurnPlan]) -> ExploredRun:
        return converse(prepared, plans, texts)

    def tell(runs: int, causes: int) -> None:
        progress.begin(f"exploring {call.subject}: {runs} conversations, {causes} found")

    try:
        campaign = search(
            run,
            runs=call.runs,
            turns_max=call.turns,
            seed=call.seed,
            memory=MEMORY / re.sub(r"[^\w-]+", "_", call.subject),
            tell=tell,
        )
    except SourceError as problem:
        raise SimkitError(_advised(problem, call.subject)) from problem
    finally:
        progress.end()
    took = time.monotonic() - started
    for line in _lines(campaign, call, prepared, took):
        echo(line)
    return 1 if campaign.discoveries else 0


def _advised(problem: SourceError, subject: str) -> str:
    text = problem.what
    if "a model call belongs to no agent" in text:
        head = text.partition("\n")[0]
        return (
            f"{head}\n  Nothing says which agent makes which call. Write a first scenario, which "
            f"holds such rules, and explore that:\n  simkit init --app {subject}"
        )
    if not FUNCTION_NAME.fullmatch(subject):
        return str(problem)
    # The place is in a scenario that is no file.
    if isinstance(problem.__cause__, FunctionMissing):
        return (
            f"{text.splitlines()[0]}\n  Start the command in the folder from which the module is "
            "imported, or explore a scenario whose `app: {path: [DIR]}` names that folder."
        )
    return text


def _subject(name: str) -> tuple[Prepared, Sequence[str]]:
    """Return the scenario that conversations vary, and what its users say."""
    library = Library()
    if FUNCTION_NAME.fullmatch(name):
        text = (
            f"scenario: explored\npipeline: {name}\napp: {{path: [.]}}\nturns: [{{user: Hello.}}]\n"
        )
    elif name.endswith(PIPELINE_SUFFIX):
        if not Path(name).is_file():
            raise SimkitError(f"{name}: there is no such file")
        text = f"{_HEAD}pipeline: {scalar(name)}\n"
    else:
        items = select([name]).items
        if len(items) != 1:
            known = "\n".join(f"  {item.id}" for item in items[:12])
            raise SimkitError(
                f"{name}: holds {counted(len(items), 'scenario')}; name one to start from:\n{known}"
            )
        prepared = library.prepared(items[0])
        return prepared, _texts(prepared) or USER_TEXTS
    file = f"explored{SCENARIO_SUFFIX}"
    (document,) = load_text(text, file)
    return library.assembled(ScenarioCase(file, "explored", 0, 1), document), USER_TEXTS


def _texts(prepared: Prepared) -> list[str]:
    texts = (turn.user.text for turn in prepared.scenario.turns if turn.user is not None)
    return list(dict.fromkeys(text for text in texts if text))


def _lines(
    campaign: Campaign, call: ExploreOptions, prepared: Prepared, took: float
) -> Iterator[str]:
    stopped = "stopped: " if campaign.is_stopped else ""
    yield (
        f"{stopped}{counted(campaign.runs, 'conversation')}, {counted(campaign.turns, 'turn')}, "
        f"{counted(campaign.model_calls, 'model call')} ({took:.2f} s)"
    )
    for discovery in campaign.discoveries:
        yield ""
        yield from _discovery_lines(discovery, call, prepared)
    if not campaign.discoveries:
        yield "nothing was found: no error, no lint, no limit"


def _discovery_lines(
    discovery: Discovery, call: ExploreOptions, prepared: Prepared
) -> Iterator[str]:
    finding = discovery.record.causes[discovery.cause]
    turns = discovery.record.turns
    count = reply_lines(turns)
    code = "error" if finding.id == "claim" else finding.id
    yield f"  FOUND  {code}: {short(' '.join(finding.what.split()), 160)}"
    yield (
        f"         in {counted(discovery.runs, 'run')}, first in run {discovery.first}; "
        f"smallest: {counted(len(turns), 'turn')}, {counted(count, 'reply line')}"
    )
    folder = Path(call.folder)
    folder.mkdir(parents=True, exist_ok=True)
    command = f"simkit explore {call.subject} --seed {call.seed}"
    file = _write(folder, discovery, scenario_text(discovery, prepared, folder.resolve(), command))
    if shows(file, discovery.cause):
        yield f"         simkit replay {file}"
    else:
        os.unlink(file)
        yield "         It cannot be written as a scenario that shows it by itself."


def _write(folder: Path, discovery: Discovery, text: str) -> Path:
    """Write a text to the first file of the discovery's names that is free; return the file."""
    number = 1
    while not write_new(file := folder / file_name(discovery.cause, number), text):
        number += 1
    return file
