"""Pipelines that are code: their module, their options, and the attribution of model calls."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from simkit.core.redact import Redactor, redactor_of
from simkit.core.redact.shapes import secrets_of
from simkit.core.text import late_pattern
from simkit.language.matching import kinds
from simkit.language.paths import compile as compile_references
from simkit.language.paths import head_of
from simkit.language.yaml import Document, DocumentCache, SourcePath, near
from simkit.spec import fields
from simkit.spec.fields import require
from simkit.spec.pipeline.model import Channel, Version
from simkit.spec.scenario import items
from simkit.spec.scenario.code_names import folder_with
from simkit.spec.scenario.servers import Server, Servers


class StoreChannel(fields.YamlModel):
    """A channel in a graph's long-term store."""

    noun: ClassVar[str] = "key of a channel in a store"
    namespace: Annotated[tuple[fields.TextValue, ...], Field(min_length=1)]
    """The namespace of its items; with `${project}` or `${session}` in it, one namespace each."""
    key: fields.TextValue | None = None
    """The key of the one item that is the channel; without it, the channel is the list of all
    items."""
    value: str | None = None
    """The path of the value in a stored item; without it, the whole item is the value."""

    @property
    def scope(self) -> Literal["session", "project", "global"]:
        """Return the scope that the namespace implies."""
        named = {root for part in self.namespace for root in compile_references(part).roots}
        return "session" if "session" in named else "project" if "project" in named else "global"


def _namespace(value: Any) -> Any:
    return {"namespace": value} if isinstance(value, (list, tuple)) else value


_NAMESPACE: Final = {"type": "array", "items": fields.TEXT_SCHEMA, "minItems": 1}
StoreChannelValue = Annotated[StoreChannel, BeforeValidator(_namespace), fields.OrForm(_NAMESPACE)]


TURNS: Final = "turns"
"""The value of `app.input` for a program that reads the user's messages itself."""
_INPUT: Final = {
    "anyOf": [{"const": TURNS}, fields.FUNCTION_SCHEMA, {"type": "object"}, {"type": "array"}]
}
_RUN_OPTIONS: Final = {"anyOf": [fields.FUNCTION_SCHEMA, {"type": "object"}]}


def _input(value: Any) -> Any:
    if value == TURNS or isinstance(value, (dict, list)):
        return value
    if isinstance(value, str) and near(value, [TURNS]):
        raise fields.refuse(f"`{value}` is no way to give input", word=value, known=(TURNS,))
    return fields.as_function(value)


def _run_options(value: Any) -> Any:
    return value if isinstance(value, dict) else fields.as_function(value)


class AppOptions(fields.YamlModel):
    """How the pipeline's code is built and run."""

    noun: ClassVar[str] = "option of an app"
    path: tuple[str, ...] = ()
    """Folders, beside this file, from which its modules are imported. Without it, simkit looks
    for them in the folders of the project, from this file's upwards, and in `src`, `lib` and
    `app` of each."""
    env: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Environment variables while it runs; API keys get a dummy value unless they are set here."""
    setup: fields.FunctionName | None = None
    """A function that simkit calls before the first turn; a generator function continues after
    the last one."""
    given: fields.FunctionName | None = None
    """A function that puts `given: {state: …}` into the pipeline's object. simkit calls it with
    the object and the value, for each session, before its first message. It also gets
    `session`, `project`, `start` (of virtual time) and a graph's `config`, if it has these
    parameters."""
    call: str | None = None
    """The method that takes the user's message, if the object has several."""
    run_options: Annotated[
        str | dict[str, Any] | None, BeforeValidator(_run_options), WithJsonSchema(_RUN_OPTIONS)
    ] = None
    """Further arguments of the framework's run by name (context, deps, session, state, …): plain
    values, or a function that returns them. simkit calls it for each session, with the session's
    name if it takes `session`."""
    logs: fields.Flag = False
    """Whether simkit keeps log records of its own code; a scenario with a claim on `logs` turns
    this on."""
    fresh: fields.Flag = False
    """Whether simkit imports its modules again for every scenario that shares its process."""
    process: Literal["own"] | None = None
    """With `own`, each scenario has a process of its own in pytest, features and Python, too, as
    it has in commands."""
    real: tuple[Literal["clock", "chance"], ...] = ()
    """Real sources for the code: `clock` (otherwise virtual time from `start` on), `chance`
    (otherwise random numbers and ids come from the seed)."""
    errors: dict[str, fields.FunctionName] = Field(default_factory=dict)
    """Names for `error: {type: …}`, each with the class of the code's exception."""
    tools: dict[str, fields.MethodName] = Field(default_factory=dict)
    """Tool to the function or method that implements it, so that `tool_results` can replace it."""
    input: Annotated[
        str | dict[str, Any] | list[Any] | None, BeforeValidator(_input), WithJsonSchema(_INPUT)
    ] = None
    """`turns` for a program that reads the user's messages by `input()` or from stdin: each turn's
    text is typed in, and what it prints is the reply. Otherwise the input of a graph, a function
    or a path: a function of the user's message, or a mapping or a list with `${user}` in values."""
    output: str | None = None
    """The key in a graph's state, or in a JSON answer, that holds the reply; or `module:function`
    that reads it. Without it, the reply is the last message's text, or the whole answer."""
    post: fields.TextValue | None = None
    """The path of an ASGI application (FastAPI, Starlette) to which each user message is posted:
    `/chat`, with `${session}` in it if you like."""
    headers: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Headers of these requests, with `${session}` in values if you like:
    `{authorization: Bearer test}`."""
    config: dict[str, Any] = Field(default_factory=dict)
    """Config of a graph's calls: `configurable`, `recursion_limit`, `context`, … with
    `${session}` and `${project}` in values."""
    store: dict[str, StoreChannelValue] = Field(default_factory=dict)
    """Channels in a graph's long-term store: name to namespace."""


def _words(value: Any) -> Any:
    return tuple(shlex.split(value)) if isinstance(value, str) else value


class HandoffTool(fields.YamlModel):
    """A tool that passes control."""

    noun: ClassVar[str] = "key of a handoff tool"
    tool: str
    """Its name, as it is offered to models."""
    target: str = ""
    """The argument that names the target agent, for a tool with several targets."""


HandoffToolValue = Annotated[HandoffTool, fields.text_as("tool"), fields.OrText]


def _path_in(root: str, path: str) -> str:
    """Return the path; reject one with another beginning."""
    if head_of(path) != root:
        raise fields.refuse(f"a path here begins with `{root}`: `{root}.question`", known=(root,))
    return path


_ABOUT_ITS_RUNS: Final = {"handoff", "input", "node", "output", "routes", "sections", "sees"}
"""Keys of a rule that do not concern requests."""


class AgentRule(fields.YamlModel):
    """A rule that attributes model calls to an agent; a request must match all of its keys."""

    noun: ClassVar[str] = "key of an attribution rule"
    system: Annotated[Any, fields.matcher_of(kinds.SYSTEM), fields.AS_MATCHER] = None
    """Matcher of the system instructions, as one text."""
    messages: Annotated[Any, fields.matcher_of(kinds.MESSAGES), fields.AS_MATCHER] = None
    """Matcher of the context's messages."""
    tools: Annotated[Any, fields.matcher_of(kinds.NAMES), fields.AS_MATCHER] = None
    """Matcher of the names of the tools offered."""
    model: Annotated[Any, fields.matcher_of(kinds.MODEL), fields.AS_MATCHER] = None
    """Matcher of the model's name."""
    settings: Annotated[Any, fields.matcher_of(kinds.SETTINGS), fields.AS_MATCHER] = None
    """Matcher of the other settings of the request (temperature, …)."""
    header: Annotated[Any, fields.matcher_of(kinds.HEADERS), fields.AS_MATCHER] = None
    """Matcher of the request's headers, by their names in lower case."""
    node: Annotated[tuple[str, ...], fields.OneOrMore(str)] = ()
    """The nodes of a graph that are this agent, if they have other names."""
    input: Annotated[str, AfterValidator(partial(_path_in, "received"))] | None = None
    """The path of the run's input in what its node receives: `received.question`."""
    output: Annotated[str, AfterValidator(partial(_path_in, "update"))] | None = None
    """The path of the run's output in what its node returns: `update.answer`."""
    routes: fields.Flag = False
    """If true, every `Command(goto=…)` of its node is a route; only its model makes handoffs."""
    handoff: Annotated[tuple[HandoffToolValue, ...], fields.OneOrMore(str, dict)] = ()
    """The tools that pass control to this agent, beside `transfer_to_<its name>`: a name, or
    `{tool: handoff, target: to}` for a tool that several agents share, with the argument that
    names the agent. Without this key, `to_<its name>` and `handoff_to_<its name>` are tried as
    well; `[]` means that no tool does."""

    sees: tuple[str, ...] | None = None
    """The agents whose messages are relevant to it; a context with many others is a finding."""
    sections: (
        dict[str, Annotated[Any, fields.matcher_of(kinds.MESSAGE), fields.AS_MATCHER]] | None
    ) = None
    """Section to a matcher of its messages; the first section that fits takes the message. Of
    the other messages, the run's own are `run`, leading system messages are `instructions`, the
    last user message that the turn brought is `current_message`, and the rest is `history`."""

    def matchers(self) -> dict[str, Any]:
        """Return the matchers for the request."""
        fields_set = self.model_fields_set - _ABOUT_ITS_RUNS
        return {key: getattr(self, key) for key in type(self).model_fields if key in fields_set}


Rules = dict[str, Annotated[AgentRule, fields.text_as("system"), fields.OrText]]


class CassetteOptions(fields.YamlModel):
    """A cassette, and how strictly requests must match it."""

    noun: ClassVar[str] = "option of a cassette"
    file: str
    """The cassette's file, relative to this one or in a folder `cassettes`."""
    policy: Literal["content", "per-agent", "strict"] = "content"
    """How a request finds its interaction: by content, by its position among the agent's calls,
    or both."""
    max_age_days: fields.Positive | None = None
    """The age in days from which `simkit cassettes` lists it."""


CassetteValue = Annotated[CassetteOptions, fields.text_as("file"), fields.OrText]


class RecordOptions(fields.YamlModel):
    """Differences from recorded requests that are permitted, and data that is never recorded."""

    noun: ClassVar[str] = "option of recording"
    volatile: tuple[fields.TextValue, ...] = ()
    """Paths in request bodies, or regular expressions between slashes, that are never compared."""
    capture: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Name to a regular expression; its match at recording time is replaced by the current
    match."""
    secrets: tuple[str, ...] = ()
    """Environment variables with values that must never be written, beside those with secret
    names."""
    personal: tuple[Literal["email", "phone"], ...] = ()
    """Personal data that must never be written; it is recognized by its form."""
    tools: tuple[str, ...] = ()
    """Tools of `app.tools` with calls that are recorded, and answered from the cassette."""

    def redactor(self, environ: Mapping[str, str], literals: Iterable[str] = ()) -> Redactor:
        """Return the redactor for all that is written; ``literals`` are secrets of files."""
        named = {environ[name] for name in self.secrets if environ.get(name)}
        return redactor_of(frozenset(named.union(secrets_of(environ), literals)), self.personal)


class Implements(fields.YamlModel):
    """The declared pipelines that the code implements; their scenarios run on it too."""

    noun: ClassVar[str] = "key of what is implemented"
    designs: Annotated[tuple[str, ...], Field(min_length=1), fields.OneOrMore(str)]
    """Files, relative to this one, with one declared pipeline each."""
    differs: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Paths at which runs of the code may differ from runs of a design, each with a reason."""
    leaves_out: dict[str, fields.TextValue] = Field(default_factory=dict)
    """Scenarios that cannot run on the code, as `file::scenario`, each with a reason."""
    unseen: dict[Literal["sections", "filters"], fields.TextValue] = Field(default_factory=dict)
    """Aspects that the code does not show, each with a reason; claims that need them are
    skipped."""


MODULE_NAME: Final = late_pattern(r"\w[\w-]*(\.\w[\w-]*)*")
"""The pattern of a module that is a program: any name that Python can import, `02-chat` too."""
_CODE: Final = {
    "type": "string",
    "pattern": f"^({fields.FUNCTION_NAME.pattern}|{MODULE_NAME.pattern})$",
}


def _code(value: Any) -> Any:
    is_module = isinstance(value, str) and MODULE_NAME.fullmatch(value)
    return value if is_module else fields.as_function(value)


class CodePipeline(fields.YamlModel):
    """A pipeline that is code, in its own file, for all its scenarios."""

    version: Version = 1
    """The format's version."""
    pipeline: fields.TextValue
    """Its name."""
    code: Annotated[str, BeforeValidator(_code), WithJsonSchema(_CODE)]
    """`module:function`: the object that takes the user's message, or a function that makes it.
    With `app: {input: turns}` also a module alone, which runs as `python -m` does."""
    app: AppOptions = fields.defaults_of(AppOptions)
    """How its code is built and run."""
    agents: Rules = Field(default_factory=dict)
    """Attribution rules, for model calls that the code does not attribute itself."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that the code may connect to."""
    servers: Servers = Field(default_factory=dict)
    """Server to its definition: MCP servers and HTTP addresses that scenarios answer."""
    implements: Implements | None = None
    """The declared pipelines that the code implements."""


class ProgramPipeline(fields.YamlModel):
    """A pipeline that is a program in its own process, in any language."""

    version: Version = 1
    """The format's version."""
    pipeline: fields.TextValue
    """Its name."""
    program: Annotated[tuple[fields.TextValue, ...], fields.OneOrMore(str), BeforeValidator(_words)]
    """The command that starts it, in this file's folder: `node desk.mjs`, or a list of words."""
    app: AppOptions = fields.defaults_of(AppOptions)
    """How it is run. Only `env` applies, because none of its code runs in this process."""
    agents: Rules = Field(default_factory=dict)
    """Attribution rules, for model calls that the program does not attribute itself."""
    channels: dict[str, Channel] = Field(default_factory=dict)
    """The channels that the program reports, and their reducers."""
    implements: Implements | None = None
    """The declared pipelines that the program implements."""


class App(msgspec.Struct, frozen=True):
    """A pipeline that is code, as a scenario names it."""

    pipeline: str
    """Its name."""
    entry: str
    """``module:function``, or another name in the module."""
    folder: str
    """The folder of the file that names it, from which relative paths start."""
    options: AppOptions
    agents: Mapping[str, AgentRule]
    allow_hosts: tuple[str, ...] = ()
    servers: Mapping[str, Server] = {}
    implements: Implements | None = None
    program: tuple[str, ...] = ()
    """The command that starts it, if it is a program of its own; it then has no entry."""
    channels: Mapping[str, Channel] = {}
    """The channels that such a program reports."""
    fallback: str = ""
    """The agent of calls of which nothing says whose they are; without it they are an error."""
    is_apart: bool = False
    """Whether it runs beside another run: its modules are imported again, with that run's time."""

    @property
    def imports_itself(self) -> bool:
        """Return whether each run imports the application itself, since something comes before it.

        That is its setup; and a program is run, not imported.
        """
        options = self.options
        return options.setup is not None or options.input == TURNS or bool(self.program)

    def folders(self) -> list[str]:
        """Return the folders from which its modules are imported.

        They are the named folders, or those of the project that contain its functions' modules.
        """
        home = self.folder
        if self.options.path or not self.entry:
            return [os.path.realpath(os.path.join(home, path)) for path in self.options.path]
        found_folders = (folder_with(module, Path(home)) for module in self._modules())
        return list(dict.fromkeys(str(folder) for folder in found_folders if folder is not None))

    def _modules(self) -> Iterator[str]:
        """Yield the modules of all named functions."""
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
    """Raise SourceError for the first option of an app that needs code in this process."""
    for key in AppOptions.model_fields:
        if key in options.model_fields_set and key != "env":
            raise document.error(
                ("app", key),
                f"`{key}` is about code that runs in simkit's own process, and this is a program",
                advice=_ADVICE.get(key, "Of `app`, a program has `env` alone."),
                key=True,
            )


# Implementations: scenarios of declared pipelines that also run on code.


class Standing(msgspec.Struct, frozen=True):
    """Whether a scenario runs on code that implements declared pipelines."""

    other: str = ""
    """The reason if it concerns a pipeline that the code does not implement; else empty."""
    left_out: str = ""
    """The reason if the code's file leaves it out; else empty."""


HOLDS = Standing()


def standing(item: items.ScenarioCase, app: App) -> Standing:
    """Return whether a scenario runs on code."""
    implements = app.implements
    if implements is None:
        return HOLDS
    if _holder(item) not in _designs(implements, app.folder):
        return Standing(other=f"`{app.pipeline}` does not implement its pipeline")
    return Standing(left_out=implements.leaves_out.get(_key(item, app.folder), ""))


def scenarios_of(app: App, cache: DocumentCache | None = None) -> dict[str, items.ScenarioCase]:
    """Return the scenarios, in the folder of a code pipeline's file, of its designs.

    Their keys are ``file::scenario``, relative to that folder.
    """
    if app.implements is None:
        return {}
    designs = _designs(app.implements, app.folder)
    return {
        _key(item, app.folder): item
        for file in items.scenario_files(app.folder)
        for item in items.items_in(file, cache)
        if _holder(item) in designs
    }


def check_left_out(document: Document, app: App, cache: DocumentCache | None = None) -> None:
    """Raise SourceError for the first left-out scenario that does not exist."""
    if app.implements is None or not app.implements.leaves_out:
        return
    scenarios = scenarios_of(app, cache)
    for key in app.implements.leaves_out:
        require(document, ("implements", "leaves_out", key), "scenario", key, scenarios, key=True)


def check_implements(code: CodePipeline | ProgramPipeline, document: Document) -> None:
    """Raise SourceError for the first missing design, or for an invalid path."""
    if code.implements is None:
        return
    folder = Path(document.file).parent
    single = isinstance(document.data["implements"]["designs"], str)
    for index, name in enumerate(code.implements.designs):
        path: SourcePath = ("implements", "designs")
        path = path if single else (*path, index)
        if not name.endswith((items.PIPELINE_SUFFIX, items.SCENARIO_SUFFIX)) or not os.path.isfile(
            folder / name
        ):
            known = tuple(sorted(file.name for file in folder.glob(f"*{items.PIPELINE_SUFFIX}")))
            raise document.error(
                path, f"there is no pipeline file `{name}` beside this one", word=name, known=known
            )
    if not code.implements.differs:
        return
    from simkit.trace.diff.traces import KINDS

    for at in code.implements.differs:
        kind = at.partition(".")[0]
        where = ("implements", "differs", at)
        require(document, where, "kind of difference", kind, KINDS, key=True)


def _designs(implements: Implements, folder: str) -> set[str]:
    return {os.path.realpath(Path(folder) / name) for name in implements.designs}


def _holder(item: items.ScenarioCase) -> str:
    """Return the file with the pipeline of a scenario."""
    file = Path(item.file)
    if item.pipeline.endswith((items.PIPELINE_SUFFIX, items.SCENARIO_SUFFIX)):
        file = file.parent / item.pipeline
    return os.path.realpath(file)


def _key(item: items.ScenarioCase, folder: str) -> str:
    return f"{Path(os.path.relpath(item.file, folder)).as_posix()}::{item.name}"
