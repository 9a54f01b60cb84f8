"""Runs a prepared scenario, and after every restart in a new process that reads only the store."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from simkit.errors import FunctionMissing, ProcessFailed, ScriptBroken, SourceError
from simkit.events import AnyEvent
from simkit.messages import JsonValue
from simkit.models.script import ScriptedModel, ScriptedTools, call_with
from simkit.pipeline.model import Limits, Pipeline
from simkit.ports import Sink, Store
from simkit.runtime.compiled import compiled
from simkit.runtime.kernel import NativeDriver, UserTurn
from simkit.runtime.sqlite_store import SqliteStore
from simkit.runtime.stores import MemoryStore
from simkit.scenario.files import Prepared
from simkit.scenario.model import Scenario, Turn
from simkit.scenario.replies import ToolAnswers
from simkit.trace import Trace, canonical, copied

_ENCODE: Final = msgspec.json.Encoder().encode
_EVENT: Final = msgspec.json.Decoder(AnyEvent)


class _Ended(msgspec.Struct, frozen=True, gc=False):
    """The last line that a new process writes: how it came out."""

    goes_on: bool = False
    broken: str = ""
    """Why the script cannot be served."""
    path: tuple[str | int, ...] = ()
    missing: str = ""
    """The function that is not there."""


def traced(prepared: Prepared) -> Trace:
    """Returns what comes of a scenario; raises ScriptBroken, FunctionMissing, StoreInvalid."""
    return _traced(prepared)


def unbroken(prepared: Prepared) -> Trace:
    """Returns what comes of a scenario without its restarts."""
    turns = [turn.model_copy(update={"restart": False}) for turn in prepared.scenario.turns]
    return _apart(_with_turns(prepared, turns), None)


def alone(prepared: Prepared, session: str, starts: Sequence[int]) -> Trace:
    """Returns what comes of one session of a scenario, its turns begun when they began there.

    ``starts`` are the virtual times at which the scenario's turns began.
    """
    scenario = prepared.scenario
    places = [place for place, turn in enumerate(scenario.turns) if turn.session == session]
    places = [place for place in places if place < len(starts)]
    turns = [scenario.turns[place].model_copy(update={"restart": False}) for place in places]
    variant = _Variant(tuple(starts[place] for place in places), scenario.turns[0].project)
    return _apart(_with_turns(prepared, turns), variant)


class _Variant(msgspec.Struct, frozen=True):
    """How a run differs that is made to be compared."""

    starts: tuple[int, ...]
    given_project: str


def _with_turns(prepared: Prepared, turns: Sequence[Turn]) -> Prepared:
    scenario = prepared.scenario.model_copy(update={"turns": tuple(turns)})
    return msgspec.structs.replace(prepared, scenario=scenario)


def _apart(prepared: Prepared, variant: _Variant | None) -> Trace:
    """Returns what comes of a run on which what modules keep of another has no influence."""
    trace = Trace()
    if compiled(prepared.pipeline).functions.were_called:
        span = (0, len(prepared.scenario.turns))
        _drive_in_new_process(prepared, trace, None, span, variant)
    else:
        _drive_through(prepared, trace, variant)
    return trace


def _drive_through(prepared: Prepared, sink: Sink, variant: _Variant | None) -> bool:
    """Runs all turns in this process, in which nothing is restarted."""
    kept_in = prepared.pipeline.store
    if kept_in != "sqlite":
        return _drive(prepared, sink, MemoryStore() if kept_in else None, None, variant)
    with tempfile.TemporaryDirectory(prefix="simkit-") as folder:
        return _drive_with_file(prepared, sink, Path(folder) / "store.sqlite", None, variant)


def _traced(prepared: Prepared) -> Trace:
    trace = Trace()
    starts = [place for place, turn in enumerate(prepared.scenario.turns) if turn.restart]
    if not starts:
        _drive_through(prepared, trace, None)
        return trace
    spans = zip([0, *starts], [*starts, len(prepared.scenario.turns)], strict=True)
    with tempfile.TemporaryDirectory(prefix="simkit-") as folder:
        file = Path(folder) / "store.sqlite"
        for span in spans:
            if not span[0]:
                goes_on = _drive_with_file(prepared, trace, file, span)
            else:
                goes_on = _drive_in_new_process(prepared, trace, file, span)
            if not goes_on:
                break
    return trace


def _drive_with_file(
    prepared: Prepared,
    sink: Sink,
    file: Path,
    span: tuple[int, int] | None,
    variant: _Variant | None = None,
) -> bool:
    with closing(SqliteStore(file)) as store:
        return _drive(prepared, sink, store, span, variant)


def _drive(
    prepared: Prepared,
    sink: Sink,
    store: Store | None,
    span: tuple[int, int] | None,
    variant: _Variant | None = None,
) -> bool:
    """Runs some turns in this process; returns whether the conversation goes on after them."""
    scenario, pipeline = prepared.scenario, prepared.pipeline
    shared_results, given = _shared(prepared)
    ready = compiled(pipeline)
    functions = ready.functions
    driver = NativeDriver(
        ready,
        scenario=prepared.item.name,
        seed=scenario.seed,
        start=scenario.start,
        turns=[
            _user_turn(turn, variant.starts[place] if variant else 0)
            for place, turn in enumerate(scenario.turns)
        ],
        given=given,
        model=ScriptedModel(
            [turn.replies for turn in scenario.turns],
            ready.tool_args,
            ready.schemas,
            functions.named,
        ),
        tools=ScriptedTools(
            [turn.tool_results for turn in scenario.turns],
            shared_results,
            {name: t.function for name, t in pipeline.tools.items() if t.function},
            lambda name, args: copied(call_with(functions.named(name), copied(args))),
        ),
        limits=_limits(pipeline, scenario),
        store=store,
        span=span,
        given_project=variant.given_project if variant else None,
    )
    return driver.run(sink)


def _limits(pipeline: Pipeline, scenario: Scenario) -> Limits:
    changed = {k: v for k, v in scenario.limits.model_dump().items() if v is not None}
    return pipeline.limits.model_copy(update=changed) if changed else pipeline.limits


def _shared(prepared: Prepared) -> tuple[Mapping[str, ToolAnswers], Mapping[str, Any]]:
    """Tool results and given state, with those of the files under ``use`` beneath."""
    results: dict[str, ToolAnswers] = {}
    given: dict[str, Any] = {}
    for shared in prepared.shared:
        results.update(shared.tool_results)
        given.update(shared.given.state)
    return results, canonical({**given, **prepared.scenario.given.state})


def _user_turn(turn: Turn, not_before: int) -> UserTurn:
    user = turn.user
    text, value = "", None
    resumes = "resume" in turn.model_fields_set
    if resumes:
        value = canonical(turn.resume)
    elif user is not None and user.text is not None:
        text = user.text
    elif user is not None:
        value = canonical(user.json_)
        text = value if isinstance(value, str) else _json(value)
    return UserTurn(
        text, value, resumes, turn.session, turn.project, turn.expect.has("error"), not_before
    )


def _json(value: JsonValue) -> str:
    return _ENCODE(value).decode()


# A new process


def _drive_in_new_process(
    prepared: Prepared,
    sink: Sink,
    file: Path | None,
    span: tuple[int, int],
    variant: _Variant | None = None,
) -> bool:
    """Runs some turns in a new process, which is given the scenario and the store's file.

    Without a file it runs all of them, in a store of its own.
    """
    task = pickle.dumps((prepared, None if file is None else str(file), span, variant))
    done = subprocess.run(
        [sys.executable, "-m", "simkit.execution"],
        input=task,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path)},
        check=False,
    )
    *lines, last = done.stdout.splitlines() or [b""]
    try:
        ended = msgspec.json.decode(last, type=_Ended)
        events = [_EVENT.decode(line) for line in lines]
    except msgspec.MsgspecError:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise ProcessFailed(
            f"the process that was to go on with turn {span[0] + 1} ended with code "
            f"{done.returncode}{': ' if said else ''}{''.join(said)}",
            ("turns", span[0], "restart"),
        ) from None
    for event in events:
        sink.emit(event)
    if ended.missing:
        raise FunctionMissing(ended.broken, ended.missing)
    if ended.broken:
        raise ScriptBroken(ended.broken, ended.path)
    return ended.goes_on


class _Lines:
    """A sink that writes each event as a line."""

    def __init__(self, out: Any) -> None:
        self._out = out

    def emit(self, event: AnyEvent) -> None:
        """Writes one event."""
        self._out.write(_ENCODE(event) + b"\n")


def main() -> None:
    """Goes on with a scenario whose process has ended: what ``restart: true`` starts."""
    # What user code prints must not stand among the events.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    prepared, file, span, variant = pickle.loads(sys.stdin.buffer.read())
    ended = _Ended()
    try:
        if file is None:
            goes_on = _drive_through(prepared, _Lines(out), variant)
        else:
            goes_on = _drive_with_file(prepared, _Lines(out), Path(file), span)
        ended = _Ended(goes_on)
    except FunctionMissing as problem:
        ended = _Ended(broken=problem.what, missing=problem.name)
    except ScriptBroken as problem:
        ended = _Ended(broken=problem.what, path=problem.path)
    except SourceError as problem:
        ended = _Ended(broken=str(problem), path=("turns", span[0], "restart"))
    out.write(_ENCODE(ended) + b"\n")
    out.close()


if __name__ == "__main__":
    main()
