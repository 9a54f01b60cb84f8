"""Reply lines and tool results: the answers of models and tools in a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

import msgspec
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from simkit.core import messages as m
from simkit.language.matching import Matcher, compile_matcher, kinds
from simkit.language.yaml import SourcePath, near
from simkit.providers.failures import FAILURES, Failure
from simkit.spec import fields
from simkit.spec.loading import validated_inside
from simkit.spec.refers_to import AgentName, RefersTo
from simkit.spec.scenario.beside import (
    EXTRA_KEYS,
    EXTRA_WORDS,
    BesideLine,
    UsageValue,
    check_beside,
    check_words,
    json_said,
    schemas_beside,
)
from simkit.trace.store import canonical

ANSWERS: Final = ("text", "json", "calls", "handoff", "interrupt", "error", "function")
AROUND: Final = ("when", "usage", "latency_ms", "chunks", "unchecked", *EXTRA_WORDS)
ContextMatcher = Annotated[Any, fields.matcher_of(kinds.CONTEXT), fields.AS_MATCHER]
ArgumentsMatcher = Annotated[Any, fields.matcher_of(kinds.ARGUMENTS), fields.AS_MATCHER]


class HandoffLine(fields.YamlModel):
    """A reply that passes control."""

    to: AgentName
    """The target."""
    type: str | None = None
    """The handoff's type; optional if one contract exists for the pair."""
    query: fields.TextValue | None = None
    """The query for the target."""
    payload: Any = None
    """The payload."""


class ErrorLine(fields.YamlModel):
    """A provider's failure in detail."""

    status: fields.Count | None = None
    """The HTTP status; without it, that of the type, or 500."""
    type: str = "server_error"
    """The failure's type: a name of the vocabulary, or one that the scenario defines."""
    message: fields.TextValue | None = None
    """The provider's message."""
    retry_after: fields.Number | None = None
    """Seconds after which the client may retry; without it, a header tells the client not to."""


def _error(value: Any) -> Any:
    if isinstance(value, str) and value not in FAILURES:
        raise fields.refuse(f"unknown error `{value}`", known=tuple(FAILURES), word=value)
    if not isinstance(value, (str, dict)):
        raise fields.refuse("an error must be a name, or a mapping with status, type, message")
    return value


ErrorValue = Annotated[
    Annotated[str, Tag("name"), WithJsonSchema({"enum": list(FAILURES)})]
    | Annotated[ErrorLine, Tag("detail")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "detail"),
    BeforeValidator(_error),
]


def _calls(value: Any) -> Any:
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        for entry in value:
            if not isinstance(entry, dict) or len(entry) != 1:
                raise fields.refuse("each call must be one tool with its arguments: `- tool: {…}`")
            pairs += entry.items()
    else:
        raise fields.refuse("calls must be a list of `tool: arguments`: `[find_order: {}]`")
    if not pairs:
        raise fields.refuse("calls must name at least one tool")
    for tool, args in pairs:
        if args is not None and not isinstance(args, dict):
            raise fields.refuse(f"the arguments of `{tool}` must be a mapping")
    return tuple(m.CallLine(tool, {} if args is None else canonical(args)) for tool, args in pairs)


_CALLS: Final = fields.mapping_schema({"type": ["object", "null"]})
CallsValue = Annotated[
    Any,
    BeforeValidator(_calls),
    WithJsonSchema({"anyOf": [_CALLS, fields.list_schema({**_CALLS, "maxProperties": 1})]}),
]


class ReplyLine(BesideLine):
    """One scripted answer of a model: exactly one kind of answer, with its extras."""

    noun: ClassVar[str] = "key of a reply line"

    text: fields.TextValue | None = None
    """The model answers with this text; may be combined with `calls` or `handoff`."""
    json_: Any = Field(default=None, alias="json")
    """The model answers with this value as JSON."""
    calls: CallsValue = None
    """The model calls these tools, all in one message."""
    handoff: HandoffLine | None = None
    """The model passes control."""
    interrupt: Any = None
    """The agent asks the user and waits."""
    error: ErrorValue | None = None
    """The provider fails: a name, or `{status, type, message, retry_after}`."""
    function: fields.FunctionName | None = None
    """A user's function of the messages answers."""
    when: ContextMatcher = None
    """The line is used only if this holds for the context."""
    usage: UsageValue | None = None
    """Token counts that the provider reports."""
    latency_ms: fields.Count = 0
    """The duration of the answer in virtual milliseconds."""
    chunks: fields.Positive | tuple[fields.Positive, ...] | Literal["bytes"] | None = None
    """How a stream is cut: into this number of pieces, at these sizes in characters, or byte by
    byte."""

    unchecked: fields.Flag = False
    """Whether the answer may leave the model's interface on purpose, with arguments or a value that
    its schema refuses, or a call of a tool that is not there."""

    def reply(self) -> m.Reply:
        """Return the answer as a value."""
        fields_set = self.__pydantic_fields_set__
        if "json_" in fields_set:
            return m.Structured(canonical(self.json_))
        if "calls" in fields_set:
            return m.Calls(self.calls, self.text or "")
        if self.handoff is not None:
            line = self.handoff
            payload = canonical(line.payload)
            return m.Handoff(line.to, line.type, line.query, payload, self.text or "")
        if "interrupt" in fields_set:
            return m.Interrupts(canonical(self.interrupt))
        if self.error is not None:
            return failure_of(self.error)
        if self.function is not None:
            return m.Computes(self.function)
        return m.Text(self.text or "")

    def answer(self) -> m.Answer:
        """Return the answer with its extras."""
        usage = self.usage and self.usage.usage()
        has_extras = self.__pydantic_fields_set__ & EXTRA_KEYS
        extras = self.extras() if has_extras else m.NO_EXTRAS
        return m.Answer(self.reply(), usage or None, self.latency_ms, self.chunks, extras=extras)


_FAILED: Final = Failure(500, "The provider failed.")


def failure_of(error: str | ErrorLine) -> m.Fails:
    """Return the value of `error`; missing parts come from the vocabulary."""
    if isinstance(error, str):
        failure = FAILURES[error]
        return m.Fails(error, failure.status, failure.message)
    failure = FAILURES.get(error.type, _FAILED)
    return m.Fails(
        error.type,
        failure.status if error.status is None else error.status,
        failure.message if error.message is None else error.message,
        error.retry_after,
    )


def _line(value: Any) -> Any:
    if isinstance(value, dict):
        has_text = "text" in value and ("calls" in value or "handoff" in value)
        rest = {k: v for k, v in value.items() if k != "text"} if has_text else value
        fields.one_key(rest, "key of a reply line", ANSWERS, AROUND)
        check_beside(value)
        return value
    if isinstance(value, list):
        raise fields.refuse("a reply line must be a text or a mapping, not a list: write `- ` once")
    if value is None:
        raise fields.refuse('a reply line must not be empty; an empty reply is `""`')
    return {"text": value}


def _checked_line(line: ReplyLine) -> ReplyLine:
    if line.logprobs or line.citations:
        is_text = line.text is not None
        check_words(line.extras(), line.text or "" if is_text else json_said(line.json_))
    return line


class _OrText:
    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        line = handler(core_schema)
        described = handler.resolve_ref_schema(line)
        kinds = [key for key in ANSWERS if key != "text"]
        described["oneOf"] = [
            *({"required": [key]} for key in kinds),
            {"required": ["text"], "not": {"anyOf": [{"required": [k]} for k in kinds]}},
        ]
        described["dependentSchemas"] = {
            "text": {
                "not": {
                    "anyOf": [{"required": [k]} for k in kinds if k not in ("calls", "handoff")]
                }
            },
            **schemas_beside(),
        }
        return {"anyOf": [{"type": ["string", "number", "boolean"]}, line]}


Line = Annotated[ReplyLine, BeforeValidator(_line), AfterValidator(_checked_line), _OrText]
Lines = Annotated[
    Annotated[tuple[Line, ...], Field(min_length=1), Tag("several")] | Annotated[Line, Tag("one")],
    Discriminator(lambda value: "several" if isinstance(value, (list, tuple)) else "one"),
]


@cache
def _line_adapter() -> TypeAdapter[ReplyLine]:
    # Only functions that answer as models need it.
    return TypeAdapter(Line)


def line_of(value: Any) -> ReplyLine | None:
    """Parse a reply line that user code made; None for any other value."""
    try:
        return _line_adapter().validate_python(value)
    except ValidationError:
        return None


def lines_of(value: tuple[ReplyLine, ...] | ReplyLine) -> tuple[ReplyLine, ...]:
    """Return an agent's lines as a tuple, also for a single one."""
    return value if isinstance(value, tuple) else (value,)


def placed_lines(
    value: tuple[ReplyLine, ...] | ReplyLine, at: SourcePath
) -> Iterator[tuple[SourcePath, ReplyLine]]:
    """Yield an agent's lines, which are at a path of the file, each with its own path."""
    for index, line in enumerate(lines_of(value)):
        yield ((*at, index) if isinstance(value, tuple) else at), line


class ScriptLine(msgspec.Struct, frozen=True):
    """A compiled reply line."""

    index: int
    """Its index among the agent's lines in the turn."""
    answer: m.Answer
    when: Matcher | None
    """Matcher of the context; None fits all."""
    is_unchecked: bool = False
    """Whether it may leave the model's interface."""


TurnScript: TypeAlias = Mapping[str, tuple[ScriptLine, ...]]
"""Agent to its compiled lines in one turn."""


def compiled_script(replies: Mapping[str, tuple[ReplyLine, ...] | ReplyLine]) -> TurnScript:
    """Compile the reply lines of a turn."""
    script: dict[str, tuple[ScriptLine, ...]] = {}
    for agent in replies:
        script[agent] = tuple(
            ScriptLine(
                index,
                line.answer(),
                compile_matcher(line.when) if "when" in line.model_fields_set else None,
                line.unchecked,
            )
            for index, line in enumerate(lines_of(replies[agent]))
        )
    return script


class ToolAnswer(msgspec.Struct, frozen=True):
    """One scripted answer of a tool."""

    returns: Any = None
    error: str | None = None
    latency_ms: int = 0
    when: Any = None
    """Matcher of the arguments; None fits all."""
    is_unchecked: bool = False


class ToolAnswers(msgspec.Struct, frozen=True):
    """A tool's scripted results."""

    answers: tuple[ToolAnswer, ...]
    successive: bool
    """Whether each result is used once; otherwise the first that fits answers every call."""
    may_wait: bool = False
    """Whether it applies to every turn, so that unused results are no finding."""


class ToolLine(fields.YamlModel):
    """One scripted answer of a tool that is more than its result.

    A mapping with any other key is the result itself, unless the key is a misspelt one of these
    beside `returns` or `error`; a list answers one call after the other.
    """

    returns: Any = None
    """The result of the tool."""
    error: fields.TextValue | None = None
    """The message with which the tool fails instead."""
    latency_ms: fields.Count = 0
    """The duration of the answer in virtual milliseconds."""
    when: ArgumentsMatcher = None
    """The answer is used only if this holds for the arguments."""
    unchecked: fields.Flag = False
    """The result may break the tool's `returns`, as those of real tools do: the call then fails."""


_LONG: Final = frozenset(("returns", "error", "latency_ms", "when", "unchecked"))


def _refuse_misspelt(value: Any) -> None:
    """Reject a mapping with `returns` or `error` and a misspelt key beside it."""
    if not isinstance(value, dict):
        return
    if "returns" not in value and not isinstance(value.get("error"), str):
        return
    others = [str(key) for key in value if key not in _LONG]
    if all(near(key, _LONG) for key in others):
        raise fields.refuse(
            f"unknown key of a tool result `{others[0]}`",
            known=tuple(sorted(_LONG)),
            word=others[0],
            advice="If this mapping is what the tool returns, write `returns: {…}` around it.",
        )


def _tool_answer(value: Any, at: SourcePath = ()) -> ToolAnswer:
    if not (isinstance(value, dict) and value.keys() - {"unchecked"} and set(value) <= _LONG):
        _refuse_misspelt(value)
        return ToolAnswer(returns=canonical(value))
    long = validated_inside(ToolLine, value, at)
    if "returns" in value and "error" in value:
        raise fields.refuse("a tool either returns or fails: write `returns` or `error`")
    returns = canonical(long.returns)
    return ToolAnswer(returns, long.error, long.latency_ms, long.when, long.unchecked)


def _tool_answers(value: Any) -> Any:
    if isinstance(value, list):
        if not value:
            raise fields.refuse(
                "a list answers successive calls and must not be empty",
                advice="A tool that returns an empty list is written `returns: []`.",
            )
        answers = tuple(_tool_answer(item, (index,)) for index, item in enumerate(value))
        return ToolAnswers(answers, successive=True)
    return ToolAnswers((_tool_answer(value),), successive=False)


_OF_USER: Final = " (user)"


def answer_name(server: str) -> str:
    """Return the name under which the user's answers to a server stand beside tools' results."""
    return f"{server}{_OF_USER}"


def asking_server(name: str) -> str:
    """Return the server whose question a result answers; empty for a tool's."""
    return name.removesuffix(_OF_USER) if name.endswith(_OF_USER) else ""


ToolResult = Annotated[Any, BeforeValidator(_tool_answers), WithJsonSchema({"not": {"const": []}})]


# Planned faults: how a provider fails instead of giving the scenario's reply


def _share(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise fields.refuse(f"must be a share above 0 and up to 1, not {fields.shown_value(value)}")
    return value


Share = Annotated[
    float,
    BeforeValidator(_share),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
_PLACED: Final = ("call", "times")


class Fault(fields.YamlModel):
    """One planned fault: model calls that fail, whatever would have answered them."""

    noun: ClassVar[str] = "key of a fault"

    error: ErrorValue
    """How the provider fails: a name, or `{status, type, message, retry_after}`."""
    agent: Annotated[fields.TextValue, RefersTo("agent")] | None = None
    """The agent whose model calls fail; without it, every agent."""
    call: fields.Positive = 1
    """The agent's model call in the turn that fails, from 1; retries count."""
    times: fields.Positive = 1
    """The number of consecutive calls that fail."""
    share: Share | None = None
    """Instead of `call`: the share of calls that fail, drawn from the seed."""

    def failure(self) -> m.Fails:
        """Return the failure as a value."""
        return failure_of(self.error)


def _fault(value: Any) -> Any:
    if isinstance(value, dict) and "share" in value:
        placed = next((key for key in _PLACED if key in value), None)
        if placed is not None:
            raise fields.refuse(f"a fault has `share` or `{placed}`, not both")
    return value


Faults = tuple[Annotated[Fault, BeforeValidator(_fault)], ...]
