"""The exception tree: what can be wrong with a file, a call or a run.

::

    SimkitError                   exit 2, printed without a traceback
    ├── SourceError               a YAML file says something that cannot be
    ├── MatcherError              a matcher that is none (inside a file; becomes a SourceError)
    ├── ReferenceInvalid          a `${…}` that cannot be read (becomes a SourceError)
    │   └── FakeInvalid           what Faker is asked for and does not give (becomes a SourceError)
    ├── TraceError                a stored trace that cannot be read
    ├── StoreInvalid              a store that cannot be read, or be written to
    ├── Unsupported               asked for what this version, or this driver, cannot do
    │   └── FunctionMissing       a `module:function` that is not there (becomes a SourceError)
    ├── ProcessFailed             a process that was to go on with a scenario ended too early
    ├── ScriptBroken              the script cannot be served as it is written
    │   └── ScriptMisfit          what it says was right, and the pipeline no longer does: exit 1
    ├── OutputFailed              a stream that cannot be written to: full, or closed
    │   └── OutputUnread          its reader went away, and has what it wanted
    ├── DirectoryGone             the working directory was deleted, or may not be looked up
    ├── PatternTooSlow            a user's regular expression that finds no answer in time
    ├── WireInvalid               a request or response that its protocol does not know
    │   └── WordUnasked           a script's word that this request does not ask for
    ├── CassetteInvalid           a cassette that cannot be read, or must not be written
    ├── ProviderUnreached         a model call that cannot be sent (becomes a SourceError)
    ├── CallUnattributed          a real model call that belongs to no agent
    └── PipelineError             the pipeline itself failed; `expect: error` may claim it
        ├── NoRoute               no label, agent or edge fits what the router said
        ├── ModelError            a scripted or real provider error
        ├── InputInvalid          what an agent is given does not satisfy its schema
        ├── OutputInvalid         an agent's output does not satisfy its schema
        ├── HandoffInvalid        a handoff was refused and its contract says `retry`
        ├── HandoffTimeout        the target of a handoff took longer than its contract allows
        ├── ToolMissing           a tool was called that nobody answers
        ├── ReplyMissing          a model call that no reply line answers
        ├── CassetteMissed        a model call that no recorded interaction answers
        ├── FunctionFailed        the user's own function raised
        ├── FrameworkFailed       the pipeline's framework raised
        ├── ProgramFailed         the user's own program ended in a turn, or asked nothing more
        ├── ReportInvalid         a program told something in words that nobody reads
        ├── WriteInvalid          a write that its channel cannot take
        ├── NetworkRefused        the user's own function reached for the network
        └── LimitExceeded         a named limit was reached

Beside the tree stand RunHalted, a BaseException: simkit's own stop inside the user's code, which
no ``except Exception`` there may take for an outage; and Terminated, what Ctrl-C is for SIGTERM.

Every exception keeps its data in positional ``args``, so that it survives pickle (pytest-xdist).
Not here are exceptions that never leave their module's callers, because somebody always catches
them: ``language.yaml.nodes.Fault``, ``runtime.scheduler.TimedOut``,
``runtime.handoff_execution.TurnStopped``.
"""

from __future__ import annotations


class SimkitError(Exception):
    """The base of everything that simkit raises on purpose.

    >>> try:
    ...     simkit.load("nowhere.scenario.yaml")
    ... except simkit.SimkitError as problem:
    ...     print(problem)
    nowhere.scenario.yaml: there is no such file or folder
      did you mean `desk.scenario.yaml`?
    """

    __module__ = "simkit"  # Where users import it from, which tracebacks show.

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SourceError(SimkitError):
    """A file says something that cannot be.

    ``where`` is ``file:line:column``; ``what`` is the sentence; ``at`` is the path inside the
    document; ``near`` is the known word nearest to the one found; ``known`` lists what could stand
    there; ``advice`` says what to do now.

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
        lines = [f"{self.where}: {self.what}"]
        if self.at:
            lines.append(f"  at {self.at}")
        hints = []
        if self.near:
            hints.append(f"did you mean `{self.near}`?")
        if self.known:
            hints.append("known: " + ", ".join(self.known))
        if hints:
            lines.append("  " + "   ".join(hints))
        if self.advice:
            lines.append(f"  {self.advice}")
        return "\n".join(lines)


class MatcherError(SimkitError):
    """A matcher that is none; ``path`` leads from the matcher's root to the place."""

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


class ReferenceInvalid(SimkitError):
    """A ``${…}`` or path that cannot be read: ``args`` are the sentence and, if known, where."""


class FakeInvalid(ReferenceInvalid):
    """What Faker is asked for and does not give; ``near`` and ``known`` are words that it takes."""

    def __init__(self, what: str, near: str = "", known: tuple[str, ...] = ()) -> None:
        super().__init__(what, near, known)
        self.near, self.known = near, known


class TraceError(SimkitError):
    """A stored trace that cannot be read."""


class StoreInvalid(SimkitError):
    """A store that cannot be read, or be written to: its file is damaged, foreign or in use."""


class Unsupported(SimkitError):
    """Something that this version, or this driver, cannot do."""


class FunctionMissing(Unsupported):
    """A ``module:function`` that is not there; ``name`` is how the file writes it."""

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what, name)
        self.what, self.name = what, name


class ScriptBroken(SimkitError):
    """The script cannot be served as it is written: the scenario is at fault, not the pipeline.

    ``path`` leads to the place in the scenario's document.
    """

    def __init__(self, what: str, path: tuple[str | int, ...] = ("turns",)) -> None:
        super().__init__(what, path)
        self.what, self.path = what, path


class ScriptMisfit(ScriptBroken):
    """What a scenario says and the pipeline does not do, though it may have done so before.

    A change of the pipeline alone can be the reason, so it is a finding at the line that says it:
    a call of a tool that is no longer offered, an answer to a question that is no longer asked.
    """


class ProcessFailed(SimkitError):
    """A process that was to go on with a scenario ended before it was done.

    ``path`` leads to the restart in the scenario's document.
    """

    def __init__(self, what: str, path: tuple[str | int, ...]) -> None:
        super().__init__(what, path)
        self.what, self.path = what, path


class OutputFailed(SimkitError):
    """A stream that cannot be written to."""


class OutputUnread(OutputFailed):
    """A stream whose reader went away: ``| head -1``."""


class PatternTooSlow(SimkitError):
    """A regular expression that finds no answer in time: ``args`` are what, and the pattern."""

    def __init__(self, what: str, pattern: str = "") -> None:
        super().__init__(what, pattern)
        self.what, self.pattern = what, pattern

    def __str__(self) -> str:
        return self.what


class WireInvalid(SimkitError):
    """A request or response that its protocol does not know: ``args`` are what, and where."""

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(what, field)
        self.what, self.field = what, field

    def __str__(self) -> str:
        return f"{self.field}: {self.what}" if self.field else self.what


class WordUnasked(WireInvalid):
    """What a script says, and a provider sends only where a request asks for it: not here."""


class CassetteInvalid(SimkitError):
    """A cassette that cannot be read, or must not be written; says which and where in it."""


class ProviderUnreached(SimkitError):
    """A model call that cannot be sent: no client of the provider's, or no key for it."""


class CallUnattributed(SimkitError):
    """A real model call that belongs to no agent; says what was called and proposes a rule."""


class PipelineError(SimkitError):
    """The pipeline failed while it ran; a scenario may claim it under ``error``."""

    @property
    def type(self) -> str:
        """The name under which ``error: {type: …}`` claims it."""
        return type(self).__name__


class NoRoute(PipelineError):
    """Nothing that could run next fits what the router said."""


class ModelError(PipelineError):
    """A provider's error: ``args`` are message, type (``rate_limit``, …), HTTP status."""

    def __init__(self, message: str, kind: str, status: int) -> None:
        super().__init__(message, kind, status)
        self.kind, self.status = kind, status

    @property
    def type(self) -> str:
        return self.kind


class InputInvalid(PipelineError):
    """What an agent is given does not satisfy its ``input`` schema, or is not there."""


class OutputInvalid(PipelineError):
    """An agent's output does not satisfy its ``output`` schema."""


class HandoffInvalid(PipelineError):
    """A handoff was refused again although its contract asked for another try."""


class HandoffTimeout(PipelineError):
    """The target of a handoff took longer than its contract allows."""


class ToolMissing(PipelineError):
    """A tool was called that has neither a result in the scenario nor a function."""


class ReplyMissing(PipelineError):
    """A model call that no reply line answers."""


class CassetteMissed(PipelineError):
    """A model call that no recorded interaction answers; says why, and what was near."""


class FunctionFailed(PipelineError):
    """The user's own function raised."""


class FrameworkFailed(PipelineError):
    """A framework's own exception: ``args`` are message and the name of its class."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message, kind)
        self.kind = kind

    @property
    def type(self) -> str:
        return self.kind


class ProgramFailed(PipelineError):
    """The user's own program ended in the middle of a turn, or asked nothing for too long."""


class ReportInvalid(PipelineError):
    """A program told something of itself in words that nobody here reads."""


class WriteInvalid(PipelineError):
    """A write that its channel's reducer cannot take, or that names no channel."""


class NetworkRefused(PipelineError):
    """A user's function reached for the network: ``args`` are message, host, port.

    It is no OSError, so that no client library takes it for an outage and tries again.
    """

    def __init__(self, message: str, host: str, port: int | None) -> None:
        super().__init__(message, host, port)
        self.host, self.port = host, port


class LimitExceeded(PipelineError):
    """A named limit was reached: ``args`` are its name and what it allows."""

    def __init__(self, limit: str, allowed: int) -> None:
        super().__init__(limit, allowed)
        self.limit, self.allowed = limit, allowed

    def __str__(self) -> str:
        return f"limit `{self.limit}` reached: {self.allowed} allowed"


class DirectoryGone(SimkitError):
    """There is no working directory any more; ``args`` hold what the system says."""

    def __str__(self) -> str:
        return (
            f"the working directory is not there any more: {self.args[0]}\n"
            "  Go to a folder that is there, and call simkit again."
        )


class Terminated(KeyboardInterrupt):
    """The process was told to end, by SIGTERM: everything stops as at Ctrl-C."""


class RunHalted(BaseException):
    """The run cannot go on, and the user's code must not: ``args`` hold the SimkitError."""

    def __init__(self, cause: SimkitError) -> None:
        super().__init__(cause)
        self.cause = cause


def unanswered_as(problem: PipelineError) -> tuple[str, int, str]:
    """Return under which kind, with which status and words a model call without answer fails."""
    if isinstance(problem, ModelError):
        return problem.kind, problem.status, str(problem)
    kind = "no_recording" if isinstance(problem, CassetteMissed) else "no_reply_line"
    return kind, 0, str(problem)
