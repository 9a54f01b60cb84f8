"""Which scenarios a command runs, where the run is stored, and its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from simkit.cli.running import Job, Runner, Runs, entries_of_code
from simkit.cli.selection import SelectedEntry, Selection, only, paths_of, paths_or_default, select
from simkit.core.answers import refuse
from simkit.core.errors import SimkitError, SourceError
from simkit.core.output import echo
from simkit.core.stopping import BROKEN
from simkit.core.text import late_pattern, shell_word
from simkit.language.yaml import DocumentCache, near
from simkit.report.last_run import FOLDER, Ledger, RunEntry, failure_text
from simkit.report.results import Result
from simkit.report.scores import percent_text
from simkit.spec.scenario.items import PIPELINE_SUFFIX, ScenarioCase, misnamed

_WORDS: Final = late_pattern(r"\w+")


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which scenarios a command runs, and in how many processes."""

    paths: tuple[str, ...] = ()
    expression: str = ""
    failed: bool = False
    """Whether only those run that failed when they last ran."""
    processes: int = 1

    def selection(self, cache: DocumentCache) -> Selection | None:
        """Return the scenarios to run; None if only failed ones are requested and none did.

        Raise SourceError if there is nothing to run.
        """
        if not self.failed:
            selection = select(paths_or_default(self.paths), cache, expression=self.expression)
        else:
            failing = Ledger().failed()
            if failing is None:
                raise SimkitError(
                    f"--failed: there is no earlier run in {FOLDER}/\n  Run `simkit replay` first."
                )
            paths = self.paths or tuple(paths_of(failing))
            selection = select(paths, cache, expression=self.expression)
            selection = only(selection, failing, Ledger().safe)
            if not selection.entries:
                echo("no scenario of a file failed when it last ran")
                return None
        if not selection.entries:
            raise self._nothing_to_run(selection.deselected)
        return selection

    def _nothing_to_run(self, deselected: int) -> SourceError:
        paths = paths_or_default(self.paths)
        places = ", ".join(paths)
        if self.expression:
            problem = f"nothing to run: none of {deselected} fits -k {self.expression!r}"
            texts = (f"{each.id} {getattr(each, 'tags', '')}" for each in select(paths).entries)
            names = " ".join(texts).lower()
            words = _WORDS.findall(self.expression.lower())
            unknown = [word for word in words if word not in f"{names} and or not"]
            nearest = next(
                filter(None, (near(word, _WORDS.findall(names)) for word in unknown)), ""
            )
            problem += f": no name has `{unknown[0]}`; without -k all run" if unknown else ""
            return SourceError(places, problem, near=nearest)
        if all(path.endswith(PIPELINE_SUFFIX) for path in paths):
            problem = "nothing to run: a pipeline file holds no scenario"
            quoted = " ".join(map(shell_word, paths))
            return SourceError(places, problem, advice=f"Check it with `simkit validate {quoted}`.")
        return SourceError(
            places,
            "nothing to run: there is no `*.scenario.yaml` file with a scenario",
            advice=next(filter(None, map(misnamed, paths)), "")
            or "Name one, or another folder; `simkit init` writes a first scenario.",
        )

    def start(self, entries: Sequence[SelectedEntry], job: Job, cache: DocumentCache) -> Runs:
        """Return the runs of the entries, in the processes that they need, which start now."""
        if self.processes == 1 and not any(entries_of_code(entries, job, cache)):
            return Runs(entries, Runner(job, cache))
        from simkit.cli.processes import RunsInProcesses

        return RunsInProcesses(entries, job, cache, self.processes)


def cases_at(
    paths: Sequence[str], cache: DocumentCache, expression: str = ""
) -> list[ScenarioCase]:
    """Return the scenarios in paths; raise SimkitError for a file that cannot be read."""
    cases = []
    for entry in select(paths, cache, expression=expression).entries:
        if isinstance(entry, Result):
            raise SimkitError(entry.error)
        cases.append(entry)
    return cases


def only_case(path: str, cache: DocumentCache, purpose: str) -> ScenarioCase:
    """Return the only scenario at a path; ``purpose`` is what the command does with one."""
    entries = select((path,), cache).entries
    if len(entries) != 1:
        raise SimkitError(
            f"{path}: {purpose} one scenario, and here are {len(entries)}\n  Name one: PATH::NAME."
        )
    return cases_at((path,), cache)[0]


class KeptRun:
    """One run in `.simkit/`: its traces as they come, and its list at the end."""

    def __init__(self, job: Job) -> None:
        """If the folder cannot be written, the scenarios run all the same; `close` says why."""
        self.job, self._ledger, self._problem = job, Ledger(), ""
        try:
            self.job = msgspec.structs.replace(job, run=self._ledger.begin())
        except OSError as problem:
            self._problem = f"the traces of this run are not kept: {failure_text(problem)}"

    def close(self, results: Sequence[Result]) -> str:
        """Write the list of the run; return why that, or a trace, could not be kept."""
        entries = [RunEntry(r.id, r.outcome, r.digest, r.trace) for r in results]
        note = self._problem
        try:
            self._ledger.close(entries, [r.id for r in results if r.failed])
        except OSError as problem:
            note = note or f"this run is not recorded: {failure_text(problem)}"
        self._ledger.end()
        return note


def share_exit_code(
    percent: float | None, fail_under: float, subject: str, of_nothing: str, problems: Sequence[str]
) -> int:
    """Return 2 if something was broken, 1 if a share is below ``--fail-under``; print why.

    A share is compared as it is printed; None, which is no share of anything, is below any.
    """
    printed = 0.0 if percent is None else float(percent_text(percent))
    is_below = printed < fail_under
    if is_below:
        subject = of_nothing if percent is None else subject
        echo(f"{subject} is below --fail-under {fail_under:g}", err=True)
    if problems:
        refuse(SimkitError(), "\n".join(problems))
    return BROKEN if problems else int(is_below)
