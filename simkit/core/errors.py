"""The exception tree: what can be wrong with a file, a call or a run.

::

    SimkitError                   exit 2, printed without a traceback
    ├── SourceError               a YAML file is invalid
    ├── MatcherError              a matcher is invalid (inside a file; becomes a SourceError)
    │   └── MessageInvalid        a written message is invalid (becomes a SourceError)
    ├── ReferenceInvalid          a `${…}` cannot be read (becomes a SourceError)
    │   └── FakeInvalid           Faker does not provide a value (becomes a SourceError)
    ├── TraceError                a stored trace cannot be read
    ├── StoreInvalid              a store cannot be read or written
    ├── Unsupported               this version, or this driver, cannot do it
    │   └── FunctionMissing       a `module:function` does not exist (becomes a SourceError)
    │       └── ProgramNamed      it is a program that reads the user's messages itself
    ├── ProcessFailed             a process that runs a scenario ended too early
    ├── ScriptBroken              the script of a scenario cannot be used
    │   └── ScriptMisfit          the script no longer fits the pipeline: exit 1
    ├── OutputFailed              a stream cannot be written: full, or closed
    │   └── OutputUnread          its reader closed it: `| head -1`
    ├── DirectoryGone             the working directory was deleted or is not readable
    ├── PatternTooSlow            a user's regular expression takes too long
    ├── WireInvalid               a request or response does not fit its protocol
    │   └── WordUnasked           a script gives a value that the request did not ask for
    ├── CassetteInvalid           a cassette cannot be read, or must not be written
    ├── ProviderUnreached         a model call cannot be sent (becomes a SourceError)
    ├── UserSilent                the model of a simulated user gave no message
    ├── CallUnattributed          a real model call belongs to no agent
    └── PipelineError             the pipeline itself failed; `expect: error` may claim it
        ├── NoRoute               no label, agent or edge fits the router's answer
        ├── ModelError            a scripted or real provider error
        ├── TurnCut               a turn ended where its scenario says that it does
        │   ├── TurnCancelled     the user cancelled it
        │   └── ProcessCrashed    the process ended in it
        ├── InputInvalid          an agent's input does not satisfy its schema
        ├── OutputInvalid         an agent's output does not satisfy its schema
        ├── HandoffInvalid        a handoff was refused and its contract says `retry`
        ├── HandoffTimeout        the target of a handoff took longer than its contract allows
        ├── ToolMissing           a called tool has no result and no function
        ├── ReplyMissing          no reply line answers a model call
        ├── CassetteMissed        no recorded interaction answers a model call
        ├── FunctionFailed        a user's function raised
        ├── FrameworkFailed       the pipeline's framework raised
        ├── ProgramFailed         a user's program ended in a turn, or made no more calls
        ├── ReportInvalid         a program reported something that simkit cannot read
        ├── WriteInvalid          a channel cannot take a written value
        ├── NetworkRefused        a user's function tried to use the network
        └── LimitExceeded         a named limit was reached

Two classes are outside the tree. RunHalted is a BaseException that stops the user's code; an
``except Exception`` there must not catch it as an outage. Terminated is the KeyboardInterrupt of
SIGTERM.

Every exception keeps its data in positional ``args``, so that it survives pickle (pytest-xdist).
Exceptions that are always caught inside simkit are defined in their modules:
``language.yaml.syntax.Fault``, ``runtime.scheduler.TimedOut``,
``runtime.handoff_execution.TurnStopped``.
"""

from __future__ import annotations


class SimkitError(Exception):
    """The base class of all errors that simkit raises on purpose.

    >>> try:
    ...     simkit.load("nowhere.scenario.yaml")
    ... except simkit.SimkitError as problem:
    ...     print(problem)
    nowhere.scenario.yaml: there is no such file or folder
      did you mean `desk.scenario.yaml`?
    """

    __module__ = "simkit"  # Tracebacks show the module from which users import it.

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SourceError(SimkitError):
    """A file is invalid.

    ``where`` is ``file:line:column``; ``what`` is the sentence; ``at`` is the path inside the
    document; ``near`` is the known word nearest to the unknown one; ``known`` lists the words that
    are valid there; ``advice`` says what to do now.

    >>> try:
    ...     simkit.Simulation({"agents": {"desk": {"instrctions": "Answer."}}})
    ... except simkit.SourceError as problem:
    ...     print(problem.near)
    instructions
    """

    __module__ = "simkit"

    def __init__(
        self,
        where: str,
        what: str,
        at: str = "",
        near: str = "",
        known: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        super().__init__(where, what, at, near, known, advice)
        self.where, self.what, self.at = where, what, at
        self.near, self.known, self.advice = near, known, advice

    def __str__(self) -> str:
        at = self.at and f"at {self.at}"
        nearest = self.near and f"did you mean `{self.near}`?"
        known = "known: " + ", ".join(self.known) if self.known else ""
        hints = "   ".join(filter(None, (nearest, known)))
        return "\n  ".join(filter(None, (f"{self.where}: {self.what}", at, hints, self.advice)))


class MatcherError(SimkitError):
    """A matcher is invalid; ``path`` leads from the matcher's root to the place."""

    def __init__(
        self,
        path: tuple[str | int, ...],
        what: str,
        word: str = "",
        known: tuple[str, ...] = (),
        advice: str = "",
    ) -> None:
        super().__init__(path, what, word, known, advice)
        self.path, self.what, self.word, self.known, self.advice = path, what, word, known, advice

    def __str__(self) -> str:
        return self.what


class MessageInvalid(MatcherError):
    """A written message is invalid; ``path`` leads from the message to the place."""


class ReferenceInvalid(SimkitError):
    """A ``${…}`` or a path cannot be read: ``args`` are the sentence and, if known, the place."""


class FakeInvalid(ReferenceInvalid):
    """Faker does not provide the value; ``near`` and ``known`` are words that it knows."""

    def __init__(self, what: str, near: str = "", known: tuple[str, ...] = ()) -> None:
        super().__init__(what, near, known)
        self.near, self.known = near, known


class TraceError(SimkitError):
    """A stored trace cannot be read."""


class StoreInvalid(SimkitError):
    """A store cannot be read or written: its file is damaged, foreign or in use."""


class Unsupported(SimkitError):
    """This version, or this driver, cannot do what was asked."""


class FunctionMissing(Unsupported):
    """A ``module:function`` does not exist; ``name`` is its spelling in the file."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what, name)
        self.what, self.name = what, name


class ProgramNamed(FunctionMissing):
    """A pipeline names a program, which would read the user's messages itself."""


class ProcessFailed(SimkitError):
    """A process that continues a scenario ended before the scenario did.

    ``path`` leads to the restart in the scenario's document.
    """

    def __init__(self, what: str, path: tuple[str | int, ...]) -> None:
        super().__init__(what, path)
        self.what, self.path = what, path


class ScriptBroken(SimkitError):
    """The script of a scenario cannot be used: the scenario is wrong, not the pipeline.

    ``path`` leads to the place in the scenario's document.
    """

    def __init__(self, what: str, path: tuple[str | int, ...] = ("turns",)) -> None:
        super().__init__(what, path)
        self.what, self.path = what, path


class ScriptMisfit(ScriptBroken):
    """The script of a scenario does not fit the pipeline, though it may have done so before.

    The cause may be a change of the pipeline alone, so the result is a finding at the line of the
    script: for example a call of a tool that is no longer offered, or an answer to a question that
    is no longer asked.
    """


class OutputFailed(SimkitError):
    """A stream cannot be written."""


class OutputUnread(OutputFailed):
    """The reader of a stream closed it: ``| head -1``."""


class DirectoryGone(SimkitError):
    """The working directory no longer exists; ``args`` hold the system's message."""

    def __str__(self) -> str:
        return (
            f"the working directory is not there any more: {self.args[0]}\n"
            "  Go to a folder that is there, and call simkit again."
        )


class PatternTooSlow(SimkitError):
    """A regular expression takes too long: ``args`` are the sentence and the pattern."""

    def __init__(self, what: str, pattern: str = "") -> None:
        super().__init__(what, pattern)
        self.what, self.pattern = what, pattern


class WireInvalid(SimkitError):
    """A request or response does not fit its protocol: ``args`` are the sentence and the place."""

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(what, field)
        self.what, self.field = what, field

    def __str__(self) -> str:
        return f"{self.field}: {self.what}" if self.field else self.what


class WordUnasked(WireInvalid):
    """A script gives a value that a provider sends only if the request asks for it."""


class CassetteInvalid(SimkitError):
    """A cassette cannot be read, or must not be written; the message names file and place."""


class ProviderUnreached(SimkitError):
    """A model call cannot be sent: the provider's client or the key is missing."""


class UserSilent(SimkitError):
    """The model of a simulated user gave no message."""


class CallUnattributed(SimkitError):
    """A real model call belongs to no agent; the message shows the call and proposes a rule."""


class PipelineError(SimkitError):
    """The pipeline failed while it ran; a scenario may claim it under ``error``."""

    @property
    def type(self) -> str:
        """Return the name under which ``error: {type: …}`` claims this error."""
        return type(self).__name__


class NoRoute(PipelineError):
    """No agent that could run next fits the router's answer."""


class ModelError(PipelineError):
    """A provider's error: ``args`` are message, type (``rate_limit``, …), HTTP status."""

    def __init__(self, message: str, kind: str, status: int) -> None:
        super().__init__(message, kind, status)
        self.kind, self.status = kind, status

    @property
    def type(self) -> str:
        return self.kind


class TurnCut(PipelineError):
    """A turn ended where its scenario says that it does: ``args`` are message and moment."""

    def __init__(self, message: str, moment: str) -> None:
        super().__init__(message, moment)
        self.moment = moment
        """The moment, as ``call 2 of billing``."""


class TurnCancelled(TurnCut):
    """The user cancelled the turn."""


class ProcessCrashed(TurnCut):
    """The process ended in the middle of the turn."""


class InputInvalid(PipelineError):
    """An agent's input does not satisfy its ``input`` schema, or is missing."""


class OutputInvalid(PipelineError):
    """An agent's output does not satisfy its ``output`` schema."""


class HandoffInvalid(PipelineError):
    """A handoff was refused again although its contract allowed another try."""


class HandoffTimeout(PipelineError):
    """The target of a handoff took longer than its contract allows."""


class ToolMissing(PipelineError):
    """A tool was called that has neither a result in the scenario nor a function."""


class ReplyMissing(PipelineError):
    """No reply line answers a model call."""


class CassetteMissed(PipelineError):
    """No recorded interaction answers a model call; the message says why and what was near."""


class FunctionFailed(PipelineError):
    """A user's function raised."""


class FrameworkFailed(PipelineError):
    """A framework raised: ``args`` are the message and the name of the exception's class."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, kind)
        self.kind = kind

    @property
    def type(self) -> str:
        return self.kind


class ProgramFailed(PipelineError):
    """A user's program ended in the middle of a turn, or made no model call for too long."""


class ReportInvalid(PipelineError):
    """A program reported something that simkit cannot read."""


class WriteInvalid(PipelineError):
    """A write is not valid for its channel's reducer, or names no channel."""


class NetworkRefused(PipelineError):
    """A user's function tried to use the network: ``args`` are message, host, port.

    This is no OSError, so that client libraries do not take it for an outage and try again.
    """

    def __init__(self, message: str, host: str, port: int | None) -> None:
        super().__init__(message, host, port)
        self.host, self.port = host, port


class LimitExceeded(PipelineError):
    """A named limit was reached: ``args`` are its name and its value."""

    def __init__(self, limit: str, allowed: int) -> None:
        super().__init__(limit, allowed)
        self.limit, self.allowed = limit, allowed

    def __str__(self) -> str:
        return f"limit `{self.limit}` reached: {self.allowed} allowed"


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM: everything stops as at Ctrl-C."""


class RunHalted(BaseException):
    """The run cannot continue, and the user's code must stop: ``args`` hold the SimkitError."""

    def __init__(self, cause: SimkitError) -> None:
        super().__init__(cause)
        self.cause = cause


def halt_in(problem: BaseException | None) -> RunHalted | None:
    """Return the RunHalted that an exception is, or that a group has: a task group raises those."""
    if isinstance(problem, BaseExceptionGroup):
        return next(filter(None, map(halt_in, problem.exceptions)), None)
    return problem if isinstance(problem, RunHalted) else None


def unanswered_as(problem: PipelineError) -> tuple[str, int, str]:
    """Return the kind, HTTP status and message with which an unanswered model call fails."""
    if isinstance(problem, ModelError):
        return problem.kind, problem.status, str(problem)
    kind = "no_recording" if isinstance(problem, CassetteMissed) else "no_reply_line"
    return kind, 0, str(problem)
