"""Simulated users: state machines that speak, wait and answer, and users with a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from simkit.language.paths import walk, with_parts
from simkit.language.yaml import SourcePath, near
from simkit.spec import fields
from simkit.spec.pipeline.models import ModelOptions
from simkit.spec.scenario.moments import Duration

SAMPLE: Final = "$sample"
"""The key of a list of which one value is chosen in each conversation."""
END: Final = "end"
"""The state after which a user says nothing more."""


SESSIONS_MAX: Final = 1_000
"""The most conversations that a user has at once."""


class PlainMessage(fields.Choice):
    """A message of a user: a text, or a value."""

    noun: ClassVar[str] = "form of a user message"
    text: fields.TextValue | None = None
    """Plain text."""
    json_: Any = Field(default=None, alias="json")
    """A value, sent as JSON."""

    @property
    def as_turn(self) -> Any:
        """Return it as a turn of a scenario writes it."""
        return {"json": self.json_} if self.text is None else self.text


UserMessages = Annotated[
    tuple[Annotated[PlainMessage, fields.text_as("text", int, float), fields.OrText], ...],
    Field(min_length=1),
    fields.OneOrMore(),
]
Durations = Annotated[tuple[Duration, ...], Field(min_length=1), fields.OneOrMore()]


def _next(value: Any) -> Any:
    """Return the states that may follow, with their weights."""
    if isinstance(value, str):
        return {value: 1}
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return dict.fromkeys(value, 1)
    if isinstance(value, dict) and value:
        return value
    raise fields.refuse(
        f"must name a state, or several, not {fields.shown_value(value)}",
        advice="Write `then: asks`, `then: [asks, end]`, or weights: `then: {asks: 1, end: 3}`.",
    )


_NAME: Final = {"type": "string"}
_WEIGHT: Final = {"type": "integer", "minimum": 1}
Next = Annotated[
    dict[str, fields.Positive],
    BeforeValidator(_next),
    WithJsonSchema({"anyOf": [_NAME, fields.list_schema(_NAME), fields.mapping_schema(_WEIGHT)]}),
]


class UserState(fields.YamlModel):
    """One state of a simulated user: what it says, and what follows."""

    noun: ClassVar[str] = "key of a state"

    says: UserMessages | None = None
    """A text or a value (`{json: …}`), or several of which one is chosen; a state without it only
    waits."""
    pause: Durations | None = None
    """The virtual time that passes first: `2 h`, or several of which one is chosen."""
    then: Next = Field(default_factory=lambda: {END: 1})
    """The states that may follow: a name, a list, or names with weights. After `end` the user says
    nothing more."""


Sessions = Annotated[fields.Positive, Field(le=SESSIONS_MAX)]


class SimulatedUser(fields.YamlModel):
    """A user that nobody scripted: a state machine or a model, and what it knows."""

    noun: ClassVar[str] = "key of a user"

    persona: dict[str, Any] = Field(default_factory=dict)
    """Values for `${persona.NAME}`; `{$sample: […]}` is one of them, chosen for each
    conversation."""
    says: UserMessages | None = None
    """Instead of states: a text or a value (`{json: …}`), or several of which one is chosen in
    each turn."""
    start: fields.TextValue | None = None
    """The first state; without it, the first one that is written."""
    states: dict[str, UserState] = Field(default_factory=dict)
    """State to what the user says there."""
    says_of: fields.TextValue | None = None
    """Instead of states: a scenario file, or `FILE::NAME`. The user says what the user there says,
    in order, rarely something twice, and rarely leaves something out."""
    model: Annotated[ModelOptions, fields.text_as("model"), fields.OrText] | None = None
    """Instead of states: the model that says what the user says, `openai/gpt-5-mini`. It gets
    the goal, the persona, and the part of the conversation that the user sees."""
    goal: fields.TextValue | None = None
    """The aim of a user with a model, as a text for the model."""
    cassette: fields.TextValue | None = None
    """The file with the recorded answers of the user's model, relative to this one or in a folder
    `cassettes`. `simkit live` writes it; everything else reads it, and asks no model."""
    answers: Any = None
    """The answer to an agent's question (an interrupt); one of a list. Without it, a user with a
    model answers by the model."""
    sessions: Sessions = 1
    """The number of conversations that such a user has at once."""


def check_user(user: SimulatedUser) -> SimulatedUser:
    """Return a user whose states lead somewhere; else raise a refusal."""
    check_samples(user.persona, ("persona",))
    check_samples(user.answers, ("answers",))
    for at, messages in (
        (("says",), user.says),
        *((("states", name, "says"), state.says) for name, state in user.states.items()),
    ):
        for message in messages or ():
            refuse_samples(message.json_, at)
    _check_ways_to_speak(user)
    if user.says_of is not None:
        return user  # A simulation has put states in its place.
    _check_states(user)
    return user


def _check_states(user: SimulatedUser) -> None:
    """Refuse states that are not there, or lead nowhere."""
    if END in user.states:
        raise fields.refuse(
            f"`{END}` is no state: after it a user says nothing more",
            advice="Give the state another name.",
            at=("states", END),
        )
    if isinstance(user.answers, (list, tuple)) and not user.answers:
        raise fields.refuse("must not be empty", at=("answers",))
    known = (*user.states, END)
    if user.start is not None and user.start not in user.states:
        raise fields.refuse(
            f"there is no state `{user.start}`", tuple(user.states), user.start, at=("start",)
        )
    for name, state in user.states.items():
        if state.says is None and state.pause is None:
            raise fields.refuse("a state has `says`, `pause`, or both", at=("states", name))
        for then in state.then:
            if then not in known:
                raise fields.refuse(
                    f"there is no state `{then}`", known, then, at=("states", name, "then")
                )
    for name in user.states:
        if _waits_for_ever(user, name):
            raise fields.refuse(
                f"a user in state `{name}` only waits: it may come back without a word",
                advice="Give a state on the way `says`.",
                at=("states", name),
            )


def _check_ways_to_speak(user: SimulatedUser) -> None:
    """Raise a refusal for a user with two ways to speak, none, or parts of one."""
    ways = (user.says, user.states or None, user.says_of, user.model)
    if sum(way is not None for way in ways) != 1:
        raise fields.refuse("a user has either `says`, `states`, `says_of` or `model`")
    if user.model is None:
        for key in _OF_MODELS:
            if key in user.model_fields_set:
                raise fields.refuse(
                    f"`{key}` is for a user with a `model`",
                    advice="Add `model: openai/gpt-5-mini`, or leave it out.",
                    at=(key,),
                )
        return
    if user.start is not None:
        raise fields.refuse("a user with a `model` has no states", at=("start",))
    for key, advice in _OF_MODELS.items():
        if not (getattr(user, key) or "").strip():
            raise fields.refuse(f"a user with a `model` needs a `{key}`", advice=advice)


_OF_MODELS: Final[Mapping[str, str]] = {
    "goal": "Say what the user wants: `goal: Get a refund for ${persona.order}.`",
    "cassette": "Name a file for the answers of the model, which `simkit live` records: "
    "`cassette: buyer`.",
}
"""The keys that only a user with a model has, and needs, each with what to write."""


def _waits_for_ever(user: SimulatedUser, name: str) -> bool:
    """Return whether silent states lead from a silent state back to it."""
    coming, silent = [name], set[str]()
    while coming:
        state = user.states.get(coming.pop())
        if state is None or state.says is not None:
            continue
        if name in state.then:
            return True
        coming += [then for then in state.then if then not in silent]
        silent.update(state.then)
    return False


def check_samples(value: Any, at: SourcePath = ()) -> Any:
    """Return a value in which each `$sample` is one; else raise a refusal."""
    for path, mapping in _mappings(value, at):
        for key, options in mapping.items():
            if key == SAMPLE and (len(mapping) > 1 or not isinstance(options, (list, tuple))):
                raise fields.refuse(_NO_SAMPLE, advice=_ADVICE, at=path)
            if key == SAMPLE and not options:
                raise fields.refuse("`$sample` has no value to choose", advice=_ADVICE, at=path)
            if key != SAMPLE and str(key).startswith("$") and near(str(key), (SAMPLE,)):
                raise fields.refuse(f"unknown key `{key}`", (SAMPLE,), str(key), at=(*path, key))
    return value


def refuse_samples(value: Any, at: SourcePath = ()) -> Any:
    """Return a value without a `$sample`, where none is chosen; else raise a refusal."""
    for _, mapping in _mappings(value, at):
        if SAMPLE in mapping:
            raise fields.refuse(
                "`$sample` is not read here",
                advice="Write it in a `persona:`, and here `${persona.NAME}`.",
                at=at,
            )
    return value


def _mappings(value: Any, at: SourcePath) -> Iterator[tuple[SourcePath, Mapping[Any, Any]]]:
    return ((path, inner) for path, inner in walk(value, at) if isinstance(inner, Mapping))


_NO_SAMPLE: Final = "`$sample` takes a list of values, and stands alone"
_ADVICE: Final = "Write `{$sample: [sent, lost]}`."


def sample(value: Any, choose: Callable[[Sequence[Any]], Any]) -> Any:
    """Return a value with one chosen of every `$sample`."""
    if isinstance(value, Mapping):
        options = value.get(SAMPLE)
        if len(value) == 1 and isinstance(options, (list, tuple)) and options:
            return sample(choose(options), choose)
    return with_parts(value, lambda part: sample(part, choose))


def session_name(user: str, number: int, count: int) -> str:
    """Return the name of one of the sessions of a user who has so many."""
    return user if count == 1 else f"{user}-{number + 1}"


def check_users(users: dict[str, SimulatedUser]) -> dict[str, SimulatedUser]:
    """Return users whose sessions have names of their own; else raise a refusal."""
    names: set[str] = set()
    for name, user in users.items():
        if not name:
            raise fields.refuse("a user needs a name", at=(name,))
        sessions = {session_name(name, number, user.sessions) for number in range(user.sessions)}
        if twice := sorted(sessions & names):
            raise fields.refuse(
                f"`{twice[0]}` is the session of another user, too",
                advice="Give the user another name.",
                at=(name,),
            )
        names |= sessions
    return users


CheckedUser = Annotated[SimulatedUser, AfterValidator(check_user)]
