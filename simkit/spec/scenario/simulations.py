"""Simulations: conversations that may happen, and the claims that must hold in all of them.

A simulation is checked as a scenario of one turn, which holds all of its claims and reply lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from simkit.language.paths import as_text, lookup, walk, with_texts
from simkit.language.yaml import Document, SourcePath, path_text
from simkit.providers.failures import FAILURES
from simkit.spec import fields
from simkit.spec.loading import validated
from simkit.spec.scenario.borrowed import with_replies_of, with_says_of
from simkit.spec.scenario.claims import Expect
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.filling import Filling
from simkit.spec.scenario.items import ScenarioCase
from simkit.spec.scenario.model import RunSetup
from simkit.spec.scenario.moments import SimulationSchedule
from simkit.spec.scenario.replies import ANSWERS, AROUND, ReplyLine, Share
from simkit.spec.scenario.simulated_users import (
    SAMPLE,
    CheckedUser,
    check_samples,
    check_users,
    refuse_samples,
    sample,
)

TWICE: Final = "twice_with"
"""The key of the fields that must not be the same twice in a conversation."""
_FAMILIES: Final[Mapping[str, str]] = {
    "kind": "events", "tool": "tool_calls", "from": "handoffs", "to": "handoffs",
}  # fmt: skip
"""Key of a thing to the claim that speaks of such things; the first one decides."""


def _thing(value: Any) -> Any:
    if not isinstance(value, dict) or not any(key in value for key in _FAMILIES):
        raise fields.refuse(
            "must be an event (`kind`), a tool call (`tool`) or a handoff (`from`, `to`), not "
            f"{fields.shown_value(value)}",
            advice="Write `{tool: refund}`, `{from: desk, to: billing}` or `{kind: LimitReached}`.",
        )
    return value


NeverThings = Annotated[
    tuple[Annotated[dict[str, Any], BeforeValidator(_thing)], ...],
    Field(min_length=1),
    WithJsonSchema(fields.list_schema(fields.MATCHER_SCHEMA)),
]


def is_of_whole(thing: Mapping[str, Any]) -> bool:
    """Return whether the claim concerns a whole conversation, and no single turn."""
    return TWICE in thing


def claim_against(thing: Mapping[str, Any]) -> dict[str, Any]:
    """Return the claim that denies a thing."""
    matcher = {key: inner for key, inner in thing.items() if key != TWICE}
    denial: dict[str, Any] = {"$not": {"$has": [matcher]}}
    if TWICE in thing:
        denial = {"$unique": {"of": matcher, "by": thing[TWICE]}}
    return {next(family for key, family in _FAMILIES.items() if key in thing): denial}


def thing_denied(denial: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the matcher of the things that a claim against one denies."""
    thing: Mapping[str, Any] = (
        denial["$unique"]["of"] if "$unique" in denial else denial["$not"]["$has"][0]
    )
    return thing


class JoinedClaims:
    """Claims of a scope, joined with those against things that must never happen there."""

    def __init__(
        self, own: Mapping[str, Any], things: Sequence[Any], *, at: str, is_whole: bool
    ) -> None:
        """``at`` is the key of the claims in the file; things that are none are left out."""
        self.claims: dict[str, Any] = dict(own)
        self._at = at
        self._places: dict[str, list[SourcePath]] = {}
        for index, thing in enumerate(things):
            if not isinstance(thing, Mapping) or is_of_whole(thing) is not is_whole:
                continue
            ((family, denial),) = claim_against(thing).items()
            if family not in self._places:
                self._places[family] = [(at, family)] if family in own else []
                self.claims[family] = {"$all": [own[family]] if family in own else []}
            self.claims[family]["$all"].append(denial)
            self._places[family].append(("never", index))

    def moved(self, path: SourcePath) -> SourcePath:
        """Return the path in the file of a path in the claims."""
        places = self._places.get(str(path[0])) if path else None
        if places is None:
            return (self._at, *path)
        index = path[2] if len(path) > 2 and path[1] == "$all" else None
        if not isinstance(index, int):
            return places[0]
        head, inner = places[index], path[3:]
        if head[0] != "never":
            return (*head, *inner)
        if inner[:3] == ("$not", "$has", 0):
            return (*head, *inner[3:])
        if inner[:2] == ("$unique", "of"):
            return (*head, *inner[2:])
        return (*head, TWICE) if inner[:1] == ("$unique",) else head


MISBEHAVIOURS: Final = (
    "unknown_tool", "invalid_arguments", "malformed_json", "empty", "refusal", "repeats_itself",
    "two_handoffs_at_once", "handoff_beside_tool_call",
)  # fmt: skip
"""The ways in which a model leaves its interface."""
_OF_MODELS: Final = ("malformed_json", "refusal", "empty_reply")
PROVIDER_FAULTS: Final = tuple(
    name
    for name, failure in FAILURES.items()
    if not failure.is_wire_only and name not in _OF_MODELS
)
RESTART, DUPLICATE_TURN = "restart", "duplicate_turn"
CANCELLED_TURN, CRASH = "cancelled_turn", "crash"
TURN_FAULTS: Final = (RESTART, DUPLICATE_TURN, CANCELLED_TURN, CRASH)
"""Faults that happen to turns, not to model calls."""
FAULTS: Final = (*PROVIDER_FAULTS, *TURN_FAULTS)
TURNS_MAX: Final = 3
"""The most turns of a conversation, if nothing else is said."""
TURNS_LIMIT: Final = 8_000
"""The most turns that may be asked for: Hypothesis draws no longer lists."""
_PERSONA: Final = re.compile(r"\$\{(persona(?:\.[^{}]*)?)\}")
_FIRST_TURN: Final = "Hello."


class ModelLine(ReplyLine):
    """One answer that a model may give: a reply line, with its weight."""

    weight: fields.Positive = 1
    """How likely it is, beside the weights of the agent's other lines."""
    anything: fields.Flag = False
    """Whether the model answers anything that its request permits, instead of a line."""
    replies_of: fields.TextValue | None = None
    """A scenario file: each line that is written there for the agent, instead of a line."""


def _model_line(value: Any) -> Any:
    if not isinstance(value, dict):
        return {"text": value}
    refuse_samples(value)
    if "anything" in value:
        fields.one_key(value, "key of a line", ("anything",), ("weight",))
        if value["anything"] is False:
            raise fields.refuse(
                "there is no answer here",
                advice="Leave the line out, or write `anything: true`.",
                at=("anything",),
            )
        return value
    line = {key: inner for key, inner in value.items() if key != "weight"}
    if "text" in line and ("calls" in line or "handoff" in line):
        line.pop("text")
    fields.one_key(line, "key of a reply line", ANSWERS, (*AROUND, "weight"))
    return value


ModelLines = Annotated[
    tuple[Annotated[ModelLine, BeforeValidator(_model_line), fields.OrText], ...],
    Field(min_length=1),
    fields.OneOrMore(),
]


class SimulatedTool(fields.YamlModel):
    """The answers that a tool may give."""

    noun: ClassVar[str] = "key of a tool"

    returns: Annotated[Any, AfterValidator(check_samples)] = None
    """The result; `{$sample: […]}` is one of several. Without it, a value of the tool's schema."""
    fails: Share | None = None
    """The share of calls that fail."""
    error: fields.TextValue = "unavailable"
    """The message with which it fails."""
    latency_ms: fields.Count = 0
    """The duration of its answer in virtual milliseconds."""


def _shares(noun: str, known: Sequence[str]) -> BeforeValidator:
    def check(value: Any) -> Any:
        if isinstance(value, dict):
            for key in value:
                if key not in known:
                    raise fields.refuse(
                        f"unknown {noun} `{key}`", tuple(known), str(key), at=(key,)
                    )
        return value

    return BeforeValidator(check)


Misbehaviours = Annotated[dict[str, Share], _shares("misbehaviour", MISBEHAVIOURS)]
SimulatedFaults = Annotated[dict[str, Share], _shares("fault", FAULTS)]


MostTurns = Annotated[fields.Positive, Field(le=TURNS_LIMIT)]


class Simulation(RunSetup):
    """Conversations that may happen, and the claims that must hold in all of them."""

    simulation: fields.TextValue
    """The simulation's name: a sentence that says what must hold."""
    turns: MostTurns = TURNS_MAX
    """The most turns of one conversation."""
    users: Annotated[dict[str, CheckedUser], AfterValidator(check_users)] = Field(
        default_factory=dict
    )
    """Users by name; without any, one user says what users of a support desk say."""
    models: dict[str, ModelLines] = Field(default_factory=dict)
    """Agent to the lines of which its model answers one; other agents answer anything that their
    requests permit."""
    tools: dict[str, SimulatedTool] = Field(default_factory=dict)
    """Tool to what it may answer. Tools with a function, and tools of code, run for real unless
    they are named here."""
    misbehaves: Misbehaviours = Field(default_factory=dict)
    """Way in which a model leaves its interface, to the share of answers."""
    faults: SimulatedFaults = Field(default_factory=dict)
    """Fault to its share: failures of providers by model call; by turn `restart` (a new process
    before it), `crash` (the process ends in it), `cancelled_turn` and `duplicate_turn`."""
    schedule: SimulationSchedule = "random"
    """The order in which model calls that wait at the same time are answered: any (`random`), one
    of priorities that change once (`pct`), as they are made (`fifo`), or every one in turn
    (`exhaustive`): every conversation within the bound is then run, as by `--exhaustive`."""
    always: Expect = fields.defaults_of(Expect)
    """Claims on every turn in which what they speak of took place."""
    never: NeverThings = ()
    """Events (`kind: …`), tool calls (`tool: …`) and handoffs (`from`, `to`) that must not happen;
    with `twice_with: args`, not twice in a conversation with the same values there."""
    finally_: Expect = fields.defaults_of(Expect, alias="finally")
    """Claims on each whole conversation."""


class PreparedSimulation(msgspec.Struct, frozen=True):
    """A simulation with all its files, ready to be explored."""

    simulation: Simulation
    prepared: Prepared
    """The scenario of one turn as which it was checked."""
    always: Mapping[str, Any]
    """The claims on turns, as data with references to personas."""
    finally_: Mapping[str, Any]
    """The claims on whole conversations, as data."""
    never: Sequence[Mapping[str, Any]]
    """The things that must never happen, as data with references to personas."""
    lines: Mapping[str, Sequence[Any]]
    """Agent to its lines, as data without weights; None for any answer."""


class _Moved(msgspec.Struct, frozen=True):
    """Where the file of a simulation holds what stands in its scenario."""

    lines: Mapping[str, tuple[int, ...]]
    """Agent to the indexes of its lines that are reply lines."""
    always: JoinedClaims
    finally_: JoinedClaims

    def __call__(self, path: SourcePath) -> SourcePath:
        """Return the path in the file."""
        if path[:1] == ("expect",):
            return self.finally_.moved(path[1:])
        if path[:1] == ("scenario",):
            return ("simulation",)
        if path[:1] != ("turns",):
            return path
        inner = path[2:]
        if inner[:1] == ("expect",):
            return self.always.moved(inner[1:])
        if inner[:1] == ("tool_results",):
            return ("tools", *inner[1:2])
        if inner[:1] == ("replies",):
            return ("models", *self._line(inner[1:]))
        return ("simulation",)

    def _line(self, path: SourcePath) -> SourcePath:
        if len(path) < 2 or not isinstance(path[1], int):
            return path
        lines = self.lines.get(str(path[0]), ())
        return (path[0], lines[path[1]], *path[2:]) if path[1] < len(lines) else path[:1]


def prepare_simulation(
    library: Library, case: ScenarioCase, document: Document
) -> PreparedSimulation:
    """Return a simulation ready to be explored; raise SourceError for the first error."""
    document = with_says_of(library, with_replies_of(library, document))
    source = document.data
    personas = _personas_of(source)
    filled = Filling(
        document,
        None,
        unresolved={"persona": placeholders([*personas.values()])},
        personas={name: placeholders([persona]) for name, persona in personas.items()}
        if len(personas) > 1
        else {},
    ).filled(document)
    simulation = validated(Simulation, filled)
    _check_finally(document)
    lines = _lines_data(filled.data, simulation)
    things = source.get("never", ())
    always = JoinedClaims(source.get("always", {}), things, at="always", is_whole=False)
    finally_ = JoinedClaims(source.get("finally", {}), things, at="finally", is_whole=True)
    first = sample(next(iter(personas.values()), {}), lambda options: options[0])
    replies = {
        agent: [line for line in agent_lines if line is not None]
        for agent, agent_lines in _lines_data(source, simulation).items()
    }
    turn = {
        "user": _FIRST_TURN,
        "replies": {agent: texts for agent, texts in replies.items() if texts},
        "tool_results": {
            name: {"returns": tool.get("returns")} for name, tool in source.get("tools", {}).items()
        },
        "expect": always.claims,
    }
    # The library fills in what the file refers to; here, only personas are.
    scenario = {
        **{key: value for key, value in source.items() if key in RunSetup.model_fields},
        "scenario": source["simulation"],
        "turns": [with_persona(turn, first)],
        "expect": with_persona(finally_.claims, first),
    }
    places = {
        agent: tuple(index for index, line in enumerate(agent_lines) if line is not None)
        for agent, agent_lines in lines.items()
    }
    prepared = library.assembled(
        case, document.with_paths(scenario, _Moved(places, always, finally_))
    )
    claims = filled.data.get("always", {}), filled.data.get("finally", {})
    return PreparedSimulation(simulation, prepared, *claims, filled.data.get("never", ()), lines)


def _check_finally(document: Document) -> None:
    """Raise SourceError for a claim on a whole conversation that only a turn can answer.

    It refers to one user's persona, or to the error: a conversation goes on after one of a fault.
    """
    if "error" in document.data.get("finally", {}):
        raise document.error(
            ("finally", "error"),
            "an error ends a turn, and a conversation may go on after it",
            advice="Write the claim under `always:`, where it is judged in every turn.",
            key=True,
        )
    places: list[tuple[SourcePath, Any]] = [(("finally",), document.data.get("finally", {}))]
    places += [
        (("never", index), thing)
        for index, thing in enumerate(document.data.get("never", ()))
        if is_of_whole(thing)
    ]
    for at, claims in places:
        for path, inner in walk(claims):
            is_key = _names_persona(path[-1] if path else None)
            if is_key or _names_persona(inner):
                raise document.error(
                    (*at, *path),
                    "a whole conversation may have several users, so it has no persona",
                    advice="Write the claim under `always:`, where the user of the turn is known.",
                    key=is_key,
                )


def _names_persona(word: Any) -> bool:
    return isinstance(word, str) and _PERSONA.search(word) is not None


def _lines_data(data: Any, simulation: Simulation) -> dict[str, list[Any]]:
    """Return the lines of each agent without weights; None for any answer."""
    return {
        agent: [
            _line_data(line, model)
            for line, model in zip(fields.as_list(data["models"][agent]), models, strict=True)
        ]
        for agent, models in simulation.models.items()
    }


def _line_data(line: Any, model: ModelLine) -> Any:
    """Return a reply line without its weight; None for any answer."""
    if model.anything:
        return None
    if not isinstance(line, dict):
        return line
    rest = {key: value for key, value in line.items() if key != "weight"}
    return rest["text"] if [*rest] == ["text"] else rest


def with_persona(value: Any, persona: Mapping[str, Any]) -> Any:
    """Return a value with the references to a persona resolved."""
    root = {"persona": persona}

    def resolve(text: str) -> Any:
        whole = _PERSONA.fullmatch(text)
        if whole is not None:
            return lookup(root, whole[1])
        return _PERSONA.sub(lambda match: as_text(lookup(root, match[1])), text)

    return with_texts(value, resolve)


def _personas_of(data: Any) -> dict[str, Mapping[str, Any]]:
    """Return the personas of a document that is not yet validated, by the users' names."""
    users = data.get("users") if isinstance(data, dict) else None
    personas = {
        name: user.get("persona", {})
        for name, user in (users.items() if isinstance(users, dict) else ())
        if isinstance(user, dict)
    }
    return {name: persona for name, persona in personas.items() if isinstance(persona, dict)}


def placeholders(personas: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return for each reference that every user's persona knows the reference itself."""
    trees = [_placeholders(persona, ("persona",)) for persona in personas]
    first = trees[0] if trees else {}
    return {key: first[key] for key in first if all(key in other for other in trees)}


def _placeholders(value: Mapping[str, Any], at: SourcePath) -> dict[str, Any]:
    return {
        key: _placeholders(inner, (*at, key))
        if isinstance(inner, dict) and SAMPLE not in inner
        else f"${{{path_text((*at, key))}}}"
        for key, inner in value.items()
    }
