"""Diff of two runs of a scenario as text: equal parts are folded, differences shown.

::

    scenarios/coach.scenario.yaml::two turns
      - base/coach-two-turns.jsonl
      + .simkit/traces/coach-two-turns.jsonl

      first differing event: 8
      …
      coach, turn 1: 3 → 4 messages, 12 → 18 tokens
          = 2 messages
        + [2] system · notes
            knee hurts
          = 1 message
        the same in turn 2
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from simkit.core.errors import TraceError
from simkit.core.messages import ABSENT
from simkit.core.output import clean, current_redactor
from simkit.core.text import counted
from simkit.report import diff_lines
from simkit.report.diff_lines import Sides
from simkit.report.last_run import FOLDER
from simkit.report.results import Result
from simkit.report.text import annotation, fenced, result_annotations, results_markdown
from simkit.report.wording import Paint, plain, wrapped
from simkit.trace.diff.calls import Added, CallDiff, Changed, Removed
from simkit.trace.diff.traces import FirstDifference, TraceDiff, TurnDiff, trace_diff
from simkit.trace.diff.values import Edit, ItemEdit
from simkit.trace.store import read_trace
from simkit.trace.views import View, view_of

ANNOTATED_MAX: Final = 40
"""The number of lines in an annotation."""
ROWS_MAX: Final = 60
"""The number of rows in the table of contexts."""
DETAILS_MAX: Final = 300
"""The number of lines that Markdown shows of one scenario."""


PairOutcome: TypeAlias = Literal["equal", "different", "one", "other", "left_out", "broken"]
OUTCOMES: Final[Sequence[PairOutcome]] = get_args(PairOutcome)


class Compared(msgspec.Struct, frozen=True):
    """One scenario's two runs, or why there are not two."""

    name: str
    """The scenario's name for the user."""
    sources: tuple[str, str]
    """The source of each run: a file, or a pipeline; empty if there is no run."""
    diff: TraceDiff | None = None
    error: str = ""
    """Why a run could not be read or made; else empty."""
    file: str = ""
    """The scenario's file; empty if it is not known."""
    line: int = 0
    left_out: str = ""
    """Why it was not compared; else empty."""

    @property
    def outcome(self) -> PairOutcome:
        """Return the outcome; ``one`` and ``other`` mean that only that side has the scenario."""
        if self.error:
            return "broken"
        if self.left_out:
            return "left_out"
        if self.diff is None:
            return "one" if self.sources[0] else "other"
        return "equal" if self.diff.is_equal else "different"


def exit_code(pairs: Iterable[Compared]) -> int:
    """Return 0 if all are equal, 1 if some differ, 2 if one is broken."""
    outcomes = {pair.outcome for pair in pairs}
    return 2 if "broken" in outcomes else int(bool(outcomes - {"equal", "left_out"}))


def summary_line(pairs: Sequence[Compared], sides: diff_lines.Sides, paint: Paint = plain) -> str:
    """Return the numbers of equal and different scenarios."""
    outcomes = Counter(pair.outcome for pair in pairs)
    words: dict[str, str] = {"one": f"only in {sides.left}", "other": f"only in {sides.right}"}
    words |= {"left_out": "left out", "broken": "error" if outcomes["broken"] == 1 else "errors"}
    parts = [f"{outcomes[name]} {words.get(name, name)}" for name in OUTCOMES if outcomes[name]]
    line = f"{counted(len(pairs), 'scenario')}: {', '.join(parts) or 'nothing to compare'}"
    return paint(line, "bad" if exit_code(pairs) else "good")


def pair_lines(pair: Compared, sides: diff_lines.Sides, paint: Paint = plain) -> Iterator[str]:
    """Yield the differences of two runs of a scenario; nothing if they are equal."""
    outcome = pair.outcome
    if outcome == "equal":
        if pair.diff is not None and pair.diff.declared:
            yield from wrapped(
                f"{pair.name}: equal, {diff_lines.declared_text(pair.diff)}", "", "  "
            )
        return
    if outcome in ("one", "other", "left_out"):
        yield f"{paint(pair.name, 'strong')}: {_outcome_words(pair, sides)}"
        return
    yield paint(pair.name, "strong")
    if outcome == "broken" or pair.diff is None:
        yield from diff_lines.indented(pair.error.splitlines())
        return
    for sign, source in zip("-+", pair.sources, strict=True):
        yield f"  {diff_lines.signed(sign, source, paint)}"
    for block in diff_lines.diff_blocks(pair.diff, sides, paint):
        yield ""
        yield from diff_lines.indented(block)


# JSON


def diff_json(pairs: Sequence[Compared], sides: diff_lines.Sides, version: str) -> str:
    """Return one object, indented::

        {"simkit", "sides": [one, other],
         "scenarios": [{"name", "file", "line", "outcome", "one", "other", "left_out", "error",
                        "declared", "first", "calls", "more_calls", "turns", "at_end"}],
         "summary": {"equal", "different", "one", "other", "left_out", "broken", "exit_code"}}

    ``outcome`` is one of the summary's words: ``one`` and ``other`` mean that only that side has
    the scenario. A difference is ``{"at", "one", "other"}``; a side without a value has no key.
    Equal runs give equal bytes.
    """
    outcomes = Counter(pair.outcome for pair in pairs)
    counts: dict[str, int] = {name: outcomes[name] for name in OUTCOMES}
    whole = {
        "simkit": version,
        "sides": [sides.left, sides.right],
        "scenarios": [diff_object(pair) for pair in pairs],
        "summary": counts | {"exit_code": exit_code(pairs)},
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def diff_object(pair: Compared) -> dict[str, Any]:
    """Return one scenario's object of `diff_json`."""
    fields: dict[str, Any] = {
        "name": pair.name,
        "file": pair.file,
        "line": pair.line,
        "outcome": pair.outcome,
        "one": pair.sources[0],
        "other": pair.sources[1],
        "left_out": pair.left_out,
        "error": pair.error,
    }
    return fields if pair.diff is None else {**fields, **_object(pair.diff)}


def _object(value: Any) -> Any:
    """Return a diff as plain data; an absent value has no key."""
    if isinstance(value, Edit):
        sides = {"one": value.left, "other": value.right}
        return {"at": value.at, **{k: v for k, v in sides.items() if v is not ABSENT}}
    if isinstance(value, tuple):
        return [_object(item) for item in value]
    if isinstance(value, TraceDiff | FirstDifference | CallDiff | TurnDiff | ItemEdit):
        names = {"left": "one", "right": "other"}
        return {names.get(n, n): _object(getattr(value, n)) for n in value.__struct_fields__}
    return value


# GitHub


def diff_annotations(pairs: Sequence[Compared], sides: diff_lines.Sides) -> Iterator[str]:
    """Yield a workflow command for each scenario that is not equal."""
    for pair in pairs:
        if pair.outcome in ("equal", "left_out"):
            continue
        lines = list(pair_lines(pair, sides))
        title = f"{_short_name(pair)}: {_outcome_words(pair, sides)}"
        yield annotation(
            "error" if pair.outcome == "broken" else "warning",
            "\n".join(lines[:ANNOTATED_MAX] + ["…"] * (len(lines) > ANNOTATED_MAX)),
            file=pair.file,
            line=pair.line,
            title=title,
        )


def _short_name(pair: Compared) -> str:
    """Return the scenario's name without its file, which is shown beside it."""
    return pair.name.removeprefix(f"{pair.file}::") if pair.file else pair.name


def _outcome_words(pair: Compared, sides: diff_lines.Sides) -> str:
    return {
        "equal": "equal",
        "different": f"{sides.right} differs from {sides.left}",
        "one": f"only in {sides.left}",
        "other": f"only in {sides.right}",
        "left_out": f"left out: {pair.left_out}",
        "broken": "error",
    }[pair.outcome]


# Markdown


def diff_markdown(pairs: Sequence[Compared], sides: diff_lines.Sides) -> str:
    """Return the changed contexts as a table, and the folded differences of each scenario."""
    blocks = [f"### Contexts in {sides.right} against {sides.left}", summary_line(pairs, sides)]
    rows = [row for pair in pairs for row in _context_rows(pair, sides)]
    if rows:
        head = "| scenario | agent and call | messages |\n|---|---|---|"
        blocks.append("\n".join([head, *rows[:ROWS_MAX]]))
    if len(rows) > ROWS_MAX:
        blocks.append(f"… and {counted(len(rows) - ROWS_MAX, 'more row')}")
    blocks += [_details(pair, sides) for pair in pairs if pair.outcome not in ("equal", "left_out")]
    return "\n\n".join(blocks)


def _context_rows(pair: Compared, sides: diff_lines.Sides) -> Iterator[str]:
    if pair.diff is not None:
        for call in pair.diff.calls:
            title, _, sizes = diff_lines.call_title(call, sides).partition(": ")
            changes = list(call.changes)
            counts = (
                (sum(isinstance(change, kind) for change in changes), word)
                for kind, word in ((Added, "came"), (Removed, "went"), (Changed, "changed"))
            )
            counts_text = [f"{count} {word}" for count, word in counts if count]
            counts_text += [diff_lines.again_text(call)] if call.again else []
            cells = (_short_name(pair), title, "; ".join((sizes, *counts_text)))
            yield f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _cell(text: str) -> str:
    return re.sub(r"([\\|<>`*_\[\]])", r"\\\1", text)


def _details(pair: Compared, sides: diff_lines.Sides) -> str:
    lines = list(pair_lines(pair, sides))
    if len(lines) > DETAILS_MAX:
        lines[DETAILS_MAX:] = [f"… {counted(len(lines) - DETAILS_MAX, 'more line')}"]
    text = "\n".join(lines)
    title = f"{pair.name}: {_outcome_words(pair, sides)}"
    title = title.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<details><summary>{title}</summary>\n\n{fenced(text)}\n\n</details>"


# GitHub Actions: annotations, and the summary of the step.
#
# Both are without secrets, like everything that outlives a run.


BYTES_MAX: Final = 1_000_000
"""The size of a step's summary: at 1 MiB GitHub rejects all of it."""
_RUN_ADDRESS: Final = re.compile(r"https?://[\w.:-]+/[\w.-]+/[\w.-]+/actions/runs/\d+", re.ASCII)


def is_workflow(environment: Mapping[str, str]) -> bool:
    """Return whether this runs in a workflow of GitHub Actions."""
    return environment.get("GITHUB_ACTIONS") == "true"


def workflow_commands(results: Sequence[Result], environment: Mapping[str, str]) -> list[str]:
    """Return the lines that GitHub reads as annotations."""
    folder = _folder(environment.get("GITHUB_WORKSPACE", ""))
    return list(result_annotations(results, folder, current_redactor().text))


def add_summary(
    results: Sequence[Result],
    environment: Mapping[str, str],
    pairs: Sequence[Compared] | None = None,
    pictures: Mapping[str, str] = {},
    page: str = "",
) -> str:
    """Add the results to the summary of the step, if there is one; return the error, if any.

    ``pairs`` are their traces beside those of a base, where one is given; ``pictures`` are Mermaid
    diagrams by scenario; ``page`` is the file with all runs, if one is written.
    """
    file = environment.get("GITHUB_STEP_SUMMARY", "")
    if not file:
        return ""
    text = results_markdown(results, pictures, page, artifacts_address(environment))
    if pairs is not None:
        text += "\n" + diff_markdown(pairs, Sides("base", "now")) + "\n"
    content = _cut_to_fit(clean(text), file)
    try:
        with open(file, "ab") as summary:
            summary.write(content)
    except OSError as problem:
        return f"the summary is not written: {problem.filename}: {problem.strerror}"
    return ""


def artifacts_address(environment: Mapping[str, str]) -> str:
    """Return the address of the workflow run's artifacts; empty if GitHub does not say it."""
    server, repository, run = (
        environment.get(name, "")
        for name in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID")
    )
    address = f"{server}/{repository}/actions/runs/{run}"
    return f"{address}#artifacts" if _RUN_ADDRESS.fullmatch(address) else ""


def compared(results: Sequence[Result], base: str) -> Iterator[Compared]:
    """Yield each scenario's kept trace with the one of the same name in a folder of traces.

    Raise TraceError if the folder has none.
    """
    folder = traces_in(base)
    for result in results:
        if result.trace:
            before = folder / Path(result.trace).name
            yield _compared(result, str(before) if before.is_file() else "")


def _compared(result: Result, current: str) -> Compared:
    sources = (current, result.trace)
    diff, error = None, ""
    try:
        if current:
            diff = trace_diff(_view(current), _view(result.trace))
    except TraceError as problem:
        error = str(problem)
    return Compared(result.id, sources, diff, error, result.file, result.line)


def _view(file: str) -> View:
    events = read_trace(file).events
    try:
        return view_of(events)
    # A view trusts its trace. A changed trace may raise anywhere in it.
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError):
        raise TraceError(f"{file}: the trace is damaged") from None


def traces_in(base: str) -> Path:
    """Return the folder with the traces of ``base``, which may be `.simkit`, or contain it.

    Raise TraceError if there are none.
    """
    for folder in (Path(base), Path(base) / "traces", Path(base) / FOLDER / "traces"):
        if any(folder.glob("*.jsonl")):
            if folder.resolve() == Path(FOLDER, "traces").resolve():
                raise TraceError(
                    f"{base}: this run would write its own traces there\n"
                    "  Copy the folder before, and name the copy."
                )
            return folder
    raise TraceError(f"{base}: there is no trace in this folder, no file `*.jsonl`")


def _folder(workspace: str) -> str:
    """Return the working directory relative to the repository; empty if it is outside."""
    if not workspace:
        return ""
    try:
        folder = os.path.relpath(Path.cwd(), Path(workspace).resolve())
    except ValueError:
        return ""
    return "" if folder == "." or folder.startswith("..") else Path(folder).as_posix()


def _cut_to_fit(text: str, file: str) -> bytes:
    """Return the part of a text that still fits into the summary."""
    content = text.encode("utf-8", "backslashreplace")
    size = Path(file).stat().st_size if Path(file).is_file() else 0
    room = BYTES_MAX - size
    if len(content) <= room:
        return content
    if room <= 0:
        return b""
    content_kept = content[:room].decode("utf-8", "ignore").rpartition("\n")[0]
    return f"{content_kept}\n\n… the rest is more than the summary of a step can hold\n".encode()
