"""The environment of a pipeline during a scenario: variables, modules, setup, log records.

simkit records every log record that user code makes, of every level, whatever the loggers' levels;
never those of libraries. Loggers, their levels and handlers stay as they are, so that the printed
output stays the same. A record that a logger's own filter or ``disabled`` stops is not recorded.
"""

from __future__ import annotations

import inspect
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from importlib.machinery import PathFinder
from types import FrameType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

from simkit.adapters.modules import OwnModules
from simkit.adapters.programs.terminal import WIDTH
from simkit.capture.http.installing import Installation, Replacement
from simkit.capture.http.places import raised_at, user_frame
from simkit.core.context_values import Inside
from simkit.core.errors import DirectoryGone, FunctionMissing, SimkitError
from simkit.core.redact.shapes import DUMMY_KEY as DUMMY_KEY
from simkit.core.redact.shapes import NO_KEY
from simkit.core.text import exception_text
from simkit.providers.protocols import PROTOCOLS
from simkit.spec.scenario.apps import TURNS, App

_OFFLINE: Final = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AGNO_TELEMETRY": "false",
    "ANONYMIZED_TELEMETRY": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "LANGSMITH_TRACING_V2": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MEM0_TELEMETRY": "False",
    "NO_GCE_CHECK": "true",
}
"""Variables that keep libraries from using the network beside the pipeline: LiteLLM's import, the
reports to LangSmith, which an application turns on by `LANGCHAIN_TRACING_V2` or the like, what
frameworks report to their makers of each run (`ANONYMIZED_TELEMETRY` is Chroma's), and what AWS's
clients would ask the machine for: a region and credentials."""


@contextmanager
def surroundings(
    app: App, find: Callable[[str], Callable[..., Any]], keeps_keys: bool = False
) -> Iterator[None]:
    """Set up the pipeline's environment, and restore the old one at the end.

    ``find`` returns a function by its name. API keys in the environment are replaced by fake ones,
    so that no trace contains them, unless real traffic is wanted (``keeps_keys``). Environment and
    modules belong to the process: concurrent scenarios share them.
    """
    screen = {"COLUMNS": WIDTH} if app.options.input == TURNS else {}
    names = {name: protocol.asks_key for protocol in PROTOCOLS.values() for name in protocol.keys}
    keys = dict.fromkeys(names, DUMMY_KEY)
    if keeps_keys:
        keys = {name: NO_KEY for name, asks in names.items() if asks and name not in os.environ}
    offline = {name: value for name, value in _OFFLINE.items() if name not in os.environ}
    folders = app.folders()
    with (
        _directory(),
        _environment({**keys, **offline, **screen, **app.options.env}),
        _imported_from(folders),
        _modules(app, folders),
        _set_up(app, find),
    ):
        yield


@contextmanager
def _directory() -> Iterator[None]:
    """Restore the working directory, which setups and pipelines may change."""
    try:
        before = os.getcwd()
    except OSError as problem:
        raise DirectoryGone(problem.strerror) from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(before)


_variables: Final[dict[str, list[str | None]]] = {}
"""Variable that scenarios set to its old value, and each scenario's value."""
_folders: Final[Counter[str]] = Counter()
"""The number of scenarios that import from a folder that was not on `sys.path`."""
_lock: Final = threading.Lock()


_environments: Final[dict[frozenset[tuple[str, str]], Installation]] = {}
"""Variables with their values, to what sets them: a keeper keeps them set for the next run."""


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    changes = Installation(started=partial(_set, values), stopped=partial(_forget, values))
    with _environments.setdefault(frozenset(values.items()), changes):
        # The code of an earlier run may have changed some.
        os.environ.update(item for item in values.items() if os.environ.get(item[0]) != item[1])
        yield


def _set(values: Mapping[str, str]) -> None:
    with _lock:
        for name, value in values.items():
            _variables.setdefault(name, [os.environ.get(name)]).append(value)
        os.environ.update(values)


def _forget(values: Mapping[str, str]) -> None:
    """Set variables to another scenario's values, or to their old ones."""
    with _lock:
        for name, value in values.items():
            others = _variables[name]
            del others[others.index(value, 1)]
            if others[-1] is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = others[-1]
            if len(others) == 1:
                del _variables[name]


@contextmanager
def _imported_from(folders: list[str]) -> Iterator[None]:
    with _lock:
        added = [folder for folder in folders if folder not in sys.path or _folders[folder]]
        for folder in reversed(added):
            if not _folders[folder]:
                sys.path.insert(0, folder)
            _folders[folder] += 1
    try:
        yield
    finally:
        with _lock:
            for folder in added:
                _folders[folder] -= 1
                if not _folders[folder] and folder in sys.path:
                    sys.path.remove(folder)


@contextmanager
def _modules(app: App, folders: list[str]) -> Iterator[None]:
    """Remove modules with the pipeline's name that belong to another folder.

    If the pipeline's own modules are to be imported again, they are removed for the duration of the
    run.
    """
    home = app.entry.partition(":")[0].partition(".")[0]
    if _is_from_elsewhere(home, folders):
        forget_modules(home)
    is_program = app.options.input == TURNS  # As a process, which has what it keeps for itself.
    is_used = home not in unused_packages
    unused_packages.clear()
    if not ((app.options.fresh and is_used) or app.is_apart or is_program):
        yield
        return
    own = OwnModules(app)
    before = own.forget()
    try:
        yield
    finally:
        own.forget()
        sys.modules.update(before)


unused_packages: Final[set[str]] = set()
"""The pipelines' top-level packages that were imported, if they were, before any run."""


def _is_from_elsewhere(home: str, folders: list[str]) -> bool:
    """Return whether an imported module is not the one in the scenario's folders."""
    loaded = sys.modules.get(home)
    if loaded is None or not folders:
        return False
    local_spec = PathFinder.find_spec(home, folders)
    return local_spec is not None and local_spec.origin != getattr(
        loaded.__spec__, "origin", local_spec.origin
    )


def forget_modules(home: str) -> dict[str, ModuleType]:
    """Remove a package from `sys.modules`; return its removed modules."""
    names = [name for name in sys.modules if name == home or name.startswith(f"{home}.")]
    return {name: sys.modules.pop(name) for name in names}


@contextmanager
def _set_up(app: App, find: Callable[[str], Callable[..., Any]]) -> Iterator[None]:
    if app.options.setup is None:
        yield
        return
    entry = app.options.setup
    prepare = find(entry)
    with _errors_of(entry, "prepares the app before its first turn"):
        result = prepare()
        is_generator = inspect.isgenerator(result)
        if is_generator:
            next(result, None)
    if not is_generator:
        yield
        return
    try:
        yield
    finally:
        with _errors_of(entry, "cleans up after the app's last turn"):
            for _ in result:
                pass


@contextmanager
def _errors_of(entry: str, purpose: str) -> Iterator[None]:
    try:
        yield
    except SimkitError:
        raise
    except (Exception, SystemExit) as problem:
        where = raised_at(problem)
        raise FunctionMissing(
            f"`{entry}` {purpose}, and raised "
            f"{exception_text(problem)}{', at ' if where else ''}{where}.",
            entry,
        ) from problem


LogListener: TypeAlias = Callable[["LogEntry"], None]

_LOGGING: Final = logging.info.__code__.co_filename
_WRAPPERS: Final = ("structlog",)
"""Packages that call ``logging`` on behalf of user code."""


class LogEntry(NamedTuple):
    """The content of a log record."""

    level: str
    logger: str
    message: str
    error: str
    """The logged exception, as ``Type: message``; empty if none."""


class _Capture(NamedTuple):
    listener: LogListener
    home: str


_current: Final[ContextVar[_Capture | None]] = ContextVar("simkit_logs", default=None)


@contextmanager
def log_records(listener: LogListener, home: str) -> Iterator[None]:
    """Call ``listener`` with each log record of user code in this context.

    Code of the top-level package ``home`` is user code wherever it is installed.
    """
    with _installation, Inside(_current, _Capture(listener, home)):
        yield


def _enabled(before: Replacement) -> Replacement:
    """Let user code make every record; otherwise answer as the logger would."""

    def isEnabledFor(self: logging.Logger, level: int) -> bool:
        if before(self, level):
            return True
        capture = _current.get()
        if capture is None or self.disabled:
            return False
        frame = sys._getframe(1)
        # Code that checks the level itself, to save work, gets the true answer.
        return frame.f_code.co_filename == _LOGGING and _is_users(frame, capture.home)

    return isEnabledFor


def _handled(before: Replacement) -> Replacement:
    """Record a log record, and pass it on if it would have been made without simkit."""

    def callHandlers(self: logging.Logger, record: logging.LogRecord) -> None:
        capture = _current.get()
        if capture is not None and _is_users(sys._getframe(1), capture.home):
            capture.listener(entry_of(record))
        if self.isEnabledFor(record.levelno):
            before(self, record)

    return callHandlers


_installation: Final = Installation(
    lambda: ((logging.Logger, "isEnabledFor", _enabled), (logging.Logger, "callHandlers", _handled))
)


def _is_users(frame: FrameType | None, home: str) -> bool:
    """Return whether user code called ``logging``, directly or through a wrapper."""
    while frame is not None:
        name: str = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_filename != _LOGGING and name.partition(".")[0] not in _WRAPPERS:
            return user_frame(frame, home, nearest=False) is not None
        frame = frame.f_back
    return False


def entry_of(record: logging.LogRecord) -> LogEntry:
    """Return a record's content; its bare message if the arguments do not fit."""
    try:
        message = record.getMessage()
    except Exception:
        message = str(record.msg)
    problem = record.exc_info[1] if record.exc_info else None
    error = exception_text(problem) if problem is not None else ""
    return LogEntry(record.levelname, record.name, message, error)
