"""A pipeline that is somebody's own code: where it is, how it is built, whose each call is."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from simkit.core.redact import Redactor
from simkit.language.matching import kinds
from simkit.language.paths import head_of
from simkit.language.references import compile as compile_references
from simkit.language.yaml import Document
from simkit.spec.fields import (
    AS_MATCHER,
    Flag,
    FunctionName,
    OrText,
    Positive,
    TextValue,
    YamlModel,
    matcher_of,
    refuse,
)
from simkit.spec.pipeline.model import Channel, Version
from simkit.spec.scenario.modules import folder_with


class StoreChannel(YamlModel):
    """A channel that a graph keeps in its long-term store."""

    noun: ClassVar[str] = "key of a channel in a store"
    namespace: Annotated[tuple[TextValue, ...], Field(min_length=1)]
    """Where its items are, of one `${project}` or `${session}` if it names that, or of all."""
    key: TextValue | None = None
    """The key of the one item that is the channel; else the channel is the list of all items."""
    value: str | None = None
    """Where in what is stored the value is; else all of it is the value."""

    @property
    def scope(self) -> Literal["session", "project", "global"]:
        """How long it lasts: as long as what its namespace names."""
        named = {root for part in self.namespace for root in compile_references(part).roots}
        return "session" if "session" in named else "project" if "project" in named else "global"


def _namespace(value: Any) -> Any:
    return {"namespace": value} if isinstance(value, (list, tuple)) else value


_STORE_CHANNEL = {
    "anyOf": [
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {
            "type": "object",
            "required": ["namespace"],
            "additionalProperties": False,
            "properties": {
                "namespace": {
                    "type": "array",
                    "items": {"type": "string"},
                    "minItems": 1,
                    "description": "Where its items are.",
                },
                "key": {"type": "string", "description": "The one item that is the channel."},
                "value": {"type": "string", "description": "Where in what is stored it is."},
            },
        },
    ]
}
StoreChannelValue = Annotated[
    StoreChannel, BeforeValidator(_namespace), WithJsonSchema(_STORE_CHANNEL)
]


class AppOptions(YamlModel):
    """How the pipeline's code is built and run."""

    noun: ClassVar[str] = "option of an app"
    path: tuple[str, ...] = ()
    """Folders, beside this file, from which its modules are imported. Without it they are looked
    for in the folders of the project, upwards from this file's, and in `src`, `lib` and `app` of
    each."""
    env: dict[str, TextValue] = Field(default_factory=dict)
    """Environment variables while it runs; API keys have a dummy value unless said here."""
    setup: FunctionName | None = None
    """Called before the first turn; a generator function goes on after the last one."""
    given: FunctionName | None = None
    """Called for each session before its first message, with the pipeline's object and what
    `given: {state: …}` says: puts the one into the other. It is told the `session`, its `project`,
    the `start` of virtual time and a graph's `config`, as far as it takes them."""
    call: str | None = None
    """The method that takes the user's message, where the object has several."""
    run_options: FunctionName | None = None
    """Called for each session, with its name if it takes `session`: returns by name what the
    framework's run is given beside the message (context, session, run_config, …)."""
    logs: Flag = False
    """Log records of its own code are taken down; a scenario with a claim `logs` says it itself."""
    fresh: Flag = False
    """Its modules are imported anew for every scenario."""
    real: tuple[Literal["clock", "chance"], ...] = ()
    """What the code has for real: `clock` (else virtual time, from `start` on), `chance` (else
    random numbers and ids are drawn from the seed)."""
    errors: dict[str, FunctionName] = Field(default_factory=dict)
    """What `error: {type: …}` calls exceptions of the code, with the class of each."""
    tools: dict[str, FunctionName] = Field(default_factory=dict)
    """Tool to the function that carries it out, so that `tool_results` can stand in for it."""
    input: FunctionName | dict[str, Any] | None = None
    """What a graph is given: a function of the user's message, or keys with `${user}` in values."""
    output: str | None = None
    """The key of a graph's state that is its reply, or `module:function` of the state; else it is
    the last message's text."""
    config: dict[str, Any] = Field(default_factory=dict)
    """How a graph is called: `configurable`, `recursion_limit`, `context`, … with `${session}` and
    `${project}` in values."""
    store: dict[str, StoreChannelValue] = Field(default_factory=dict)
    """Channels that are kept in a graph's long-term store: each is a namespace."""


_NAMES = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


def _names(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _words(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


class HandoffTool(YamlModel):
    """A tool that passes control."""

    noun: ClassVar[str] = "key of a handoff tool"
    tool: str
    """Its name, as models are offered it."""
    target: str = ""
    """The argument that names the agent, of a tool that passes control to several."""


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, (str, dict)) else value


HandoffToolValue = Annotated[
    HandoffTool, BeforeValidator(lambda v: {"tool": v} if isinstance(v, str) else v), OrText
]
_HANDOFF_TOOL = {
    "anyOf": [
        {"type": "string"},
        {
            "type": "object",
            "required": ["tool"],
            "additionalProperties": False,
            "properties": {
                "tool": {"type": "string", "description": "Its name, as models are offered it."},
                "target": {
                    "type": "string",
                    "description": "The argument that names the agent, of a tool for several.",
                },
            },
        },
    ]
}
_HANDOFF_TOOLS = {"anyOf": [*_HANDOFF_TOOL["anyOf"], {"type": "array", "items": _HANDOFF_TOOL}]}


def _path_in(root: str, path: str) -> str:
    """Return the path; reject one that does not begin where it must."""
    if head_of(path) != root:
        raise refuse(f"a path here begins with `{root}`: `{root}.question`", known=(root,))
    return path


_ABOUT_ITS_RUNS: Final = {"handoff", "input", "node", "output", "routes", "sections", "sees"}
"""What of a rule says nothing of requests."""


class AgentRule(YamlModel):
    """Which model calls are an agent's: all that is said here must hold of the request."""

    noun: ClassVar[str] = "key of an attribution rule"
    system: Annotated[Any, matcher_of(kinds.SYSTEM), AS_MATCHER] = None
    """Matched against the system instructions, as one text."""
    messages: Annotated[Any, matcher_of(kinds.MESSAGES), AS_MATCHER] = None
    """Matched against the context's messages."""
    tools: Annotated[Any, matcher_of(kinds.NAMES), AS_MATCHER] = None
    """Matched against the names of the tools offered."""
    model: Annotated[Any, matcher_of(kinds.MODEL), AS_MATCHER] = None
    """Matched against the model's name."""
    settings: Annotated[Any, matcher_of(kinds.SETTINGS), AS_MATCHER] = None
    """Matched against what else the request says (temperature, …)."""
    header: Annotated[Any, matcher_of(kinds.HEADERS), AS_MATCHER] = None
    """Matched against the request's headers, by their names in small letters."""
    node: Annotated[tuple[str, ...], BeforeValidator(_names), WithJsonSchema(_NAMES)] = ()
    """The nodes of a graph whose work is this agent's, where they have other names."""
    input: Annotated[str, AfterValidator(partial(_path_in, "received"))] | None = None
    """Where in what its node receives the run's input is: `received.question`."""
    output: Annotated[str, AfterValidator(partial(_path_in, "update"))] | None = None
    """Where in what its node returns the run's output is: `update.answer`."""
    routes: Flag = False
    """If true, every `Command(goto=…)` of its node is a route; only its model makes handoffs."""
    handoff: Annotated[
        tuple[HandoffToolValue, ...], BeforeValidator(_listed), WithJsonSchema(_HANDOFF_TOOLS)
    ] = ()
    """The tools that pass control to this agent, beside `transfer_to_<its name>`: by name, or
    `{tool: handoff, target: to}` for one that several agents share, with the argument that says
    which of them. Without it, `to_<its name>` and `handoff_to_<its name>` are guessed as well;
    `[]` says that none does."""

    sees: tuple[str, ...] | None = None
    """The agents whose messages are its business; a context that holds many others is noted."""
    sections: dict[str, Annotated[Any, matcher_of(kinds.MESSAGE), AS_MATCHER]] | None = None
    """Which messages of its contexts are of which section: the first whose matcher fits. Of the
    rest, what it said and heard itself is `run`, system messages at the front are `instructions`,
    the last user message that the turn brought is `current_message`, all others are `history`."""

    def matchers(self) -> dict[str, Any]:
        """Return what must hold of the request."""
        fields_set = self.model_fields_set - _ABOUT_ITS_RUNS
        return {key: getattr(self, key) for key in type(self).model_fields if key in fields_set}


def _rule(value: Any) -> Any:
    return {"system": value} if isinstance(value, str) else value


Rules = dict[str, Annotated[AgentRule, BeforeValidator(_rule), OrText]]


class CassetteOptions(YamlModel):
    """Recorded traffic, and how strictly it is held against what is sent."""

    noun: ClassVar[str] = "option of a cassette"
    file: str
    """Its file, beside this one or in a folder `cassettes`."""
    policy: Literal["content", "per-agent", "strict"] = "content"
    """What finds an interaction: its content, its place among the agent's calls, or both."""
    max_age_days: Positive | None = None
    """`simkit cassettes` lists it when it is older."""


CassetteValue = Annotated[
    CassetteOptions, BeforeValidator(lambda v: {"file": v} if isinstance(v, str) else v), OrText
]


class RecordOptions(YamlModel):
    """What of the recorded traffic may differ from what is sent."""

    noun: ClassVar[str] = "option of recording"
    volatile: tuple[TextValue, ...] = ()
    """Paths in request bodies, or regular expressions between slashes: never compared."""
    capture: dict[str, TextValue] = Field(default_factory=dict)
    """Name to a regular expression: what it finds when recording stands for what it finds now."""
    secrets: tuple[str, ...] = ()
    """Environment variables whose values must never be written, beside those named like keys."""
    personal: tuple[Literal["email", "phone"], ...] = ()
    """What of people must never be written either: it is looked for by its shape."""
    tools: tuple[str, ...] = ()
    """Tools of `app.tools` whose calls are recorded, and answered from the cassette."""

    def redactor(self, environ: Mapping[str, str], literals: Iterable[str] = ()) -> Redactor:
        """Return what takes secrets out of all that is written; ``literals`` are those of files."""
        return Redactor(environ, self.secrets, self.personal, literals)


class Implements(YamlModel):
    """The declared pipelines that code carries out: their scenarios hold on it too."""

    noun: ClassVar[str] = "key of what is implemented"
    designs: Annotated[
        tuple[str, ...], BeforeValidator(_names), WithJsonSchema(_NAMES), Field(min_length=1)
    ]
    """Files beside this one, each of which holds one declared pipeline."""
    differs: dict[str, TextValue] = Field(default_factory=dict)
    """Where runs of the code may differ from runs of a design, each with the reason."""
    leaves_out: dict[str, TextValue] = Field(default_factory=dict)
    """`file::scenario` that cannot hold on the code, each with the reason."""
    unseen: dict[Literal["sections", "filters"], TextValue] = Field(default_factory=dict)
    """What the code does not show, each with the reason: claims that need it are passed over."""


class CodePipeline(YamlModel):
    """A pipeline that is code, in a file of its own, for all scenarios that are about it."""

    version: Version = 1
    """The format's version: 1, if it is left out."""
    pipeline: TextValue
    """Its name."""
    code: FunctionName
    """`module:function`: what takes the user's message, or what makes that."""
    app: AppOptions = Field(default_factory=AppOptions)
    """How its code is built and run."""
    agents: Rules = Field(default_factory=dict)
    """Which model calls are whose, where the code does not say it."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be reached."""
    implements: Implements | None = None
    """The declared pipelines whose scenarios hold on it too."""


class ProgramPipeline(YamlModel):
    """A pipeline that is a program in a process of its own, in whatever language."""

    version: Version = 1
    """The format's version: 1, if it is left out."""
    pipeline: TextValue
    """Its name."""
    program: Annotated[tuple[TextValue, ...], BeforeValidator(_words), WithJsonSchema(_NAMES)]
    """The command that starts it, in this file's folder: `node desk.mjs`, or a list of words."""
    app: AppOptions = Field(default_factory=AppOptions)
    """How it is run: `env` alone, since nothing of it is in this process."""
    agents: Rules = Field(default_factory=dict)
    """Which model calls are whose, where the program does not say it."""
    channels: dict[str, Channel] = Field(default_factory=dict)
    """The state that the program tells, and how its updates join it."""
    implements: Implements | None = None
    """The declared pipelines whose scenarios hold on it too."""


class App(msgspec.Struct, frozen=True):
    """A pipeline that is somebody's own code, as a scenario names it."""

    pipeline: str
    """Its name."""
    entry: str
    """``module:function``, or whatever else the module holds."""
    folder: str
    """That of the file that names it, from which relative paths start."""
    options: AppOptions
    agents: Mapping[str, AgentRule]
    allow_hosts: tuple[str, ...] = ()
    implements: Implements | None = None
    program: tuple[str, ...] = ()
    """The command that starts it, where it is a program of its own; then it has no entry."""
    channels: Mapping[str, Channel] = {}
    """What such a program tells of its state."""
    is_apart: bool = False
    """Whether it runs beside another run: its modules are imported anew, at that run's time."""

    def folders(self) -> list[str]:
        """Return the folders from which its modules are imported: those that it names, else those
        of the project that hold the modules of its functions."""
        home = Path(self.folder)
        if self.options.path or not self.entry:
            return [str((home / path).resolve()) for path in self.options.path]
        found_folders = (folder_with(module, home) for module in self._modules())
        return list(dict.fromkeys(str(folder) for folder in found_folders if folder is not None))

    def _modules(self) -> Iterator[str]:
        """Yield the modules of all functions that it names."""
        options = self.options
        single = (options.setup, options.given, options.run_options, options.input, options.output)
        names = (self.entry, *single, *options.tools.values(), *options.errors.values())
        for name in names:
            if isinstance(name, str) and (name == self.entry or ":" in name):
                yield name.partition(":")[0]


_ADVICE: Final = {
    "tools": "The program asks for a scripted result itself: `POST /simkit/tool`.",
    "given": "The program is told `given: {state: …}` with a session's first turn.",
    "path": "`program` is started in the folder of its file.",
}


def check_program(document: Document, options: AppOptions) -> None:
    """Raise SourceError for the first option of an app that speaks of code in this process."""
    for key in AppOptions.model_fields:
        if key in options.model_fields_set and key != "env":
            raise document.error(
                ("app", key),
                f"`{key}` is about code that runs in simkit's own process, and this is a program",
                advice=_ADVICE.get(key, "Of `app`, a program has `env` alone."),
                key=True,
            )
