"""Choices of one conversation: numbers, drawn beforehand, that decide what happens.

Nothing is drawn while the pipeline runs: its code may catch any exception and start any thread. One
number decides everything about one answer, digit by digit. A choice beyond the last digit is 0, the
simplest option, so that fewer and smaller numbers always mean a simpler conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from simkit.language.json_schema import schema_errors
from simkit.language.json_schema.examples import example_of, format_of, schema_at, type_of

T = TypeVar("T")
ODDS: Final = 10_000
"""The number of values of a number that decides whether something rare happens."""


class TurnPlan(msgspec.Struct, frozen=True):
    """The numbers of one turn."""

    user: int = 0
    """It decides which user speaks, and what it says."""
    orders: int = 0
    """It decides in which order models that wait at the same time are answered."""
    answers: tuple[int, ...] = ()
    """They decide what the models answer, call by call."""
    results: tuple[int, ...] = ()
    """They decide what the tools return, call by call."""
    rare: tuple[int, ...] = ()
    """They decide whether something rare happens: in the turn, then call by call of the models."""


class Plan(msgspec.Struct, frozen=True):
    """The numbers of one conversation."""

    turns: tuple[TurnPlan, ...] = ()
    personas: int = 0
    """It decides who the users are."""
    enabled: tuple[bool, ...] = ()
    """Whether each of the rare things may happen at all: all of them at once hide each other. Those
    with large shares always may."""


class AnswerLog(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The choices that one answer of a model used."""

    digits: tuple[int, ...] = ()
    oddity: str = ""
    """Which rare thing happened to it; empty for none."""


class TurnLog(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The choices that one turn used, each with its trailing zeros left out."""

    user: tuple[int, ...] = ()
    orders: tuple[int, ...] = ()
    fate: str = ""
    """Which rare thing happened to the turn; empty for none."""
    answers: tuple[AnswerLog, ...] = ()
    results: tuple[tuple[int, ...], ...] = ()


class ChoiceLog(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The choices that one conversation used: played again, they give the same conversation."""

    turns: tuple[TurnLog, ...] = ()
    personas: tuple[int, ...] = ()

    @property
    def weight(self) -> int:
        """Return how far it is from the simplest conversation of as many turns."""
        weight = sum(self.personas)
        for turn in self.turns:
            weight += sum(turn.user) + sum(turn.orders) + bool(turn.fate)
            weight += sum(map(sum, turn.results))
            weight += sum(sum(answer.digits) + bool(answer.oddity) for answer in turn.answers)
        return weight


SIMPLEST: Final = ChoiceLog((TurnLog(),))
"""One turn of the simplest choices."""


class Choices:
    """The digits of a number, used one after the other."""

    def __init__(self, number: int = 0) -> None:
        self._number = number
        self.digits: list[int] = []
        """Those that were used."""

    def below(self, count: int) -> int:
        """Return a number from 0 to ``count`` - 1; 0 when no digit is left."""
        if count <= 1:
            return 0
        self._number, digit = divmod(self._number, count)
        self.digits.append(digit)
        return digit

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options, of which the first is the simplest."""
        return options[self.below(len(options))]

    def weighted(self, weights: Mapping[T, int] | Sequence[tuple[T, int]]) -> T:
        """Return one of the options, each as often as its weight says."""
        pairs = [*weights.items()] if isinstance(weights, Mapping) else [*weights]
        rest = self.below(sum(weight for _, weight in pairs))
        for option, weight in pairs:
            rest -= weight
            if rest < 0:
                return option
        raise AssertionError("the weights are more than their sum")

    def happens(self, share: float) -> bool:
        """Return whether something happens that has a share."""
        return share > 0 and rare(self.below(ODDS), {"it": share}) != ""


class Source(Protocol):
    """Where the choices of one conversation come from."""

    turns: int
    """The most turns."""
    personas: Choices
    """They decide who the users are."""
    is_each: bool
    """Whether each alternative of a choice is taken in some conversation."""

    def begin_turn(self, index: int) -> None:
        """Begin the choices of a turn."""

    def user(self) -> Choices:
        """Return the choices of who speaks in the turn, and what is said."""

    def order(self) -> Choices:
        """Return the choices of the order in which models of the turn are answered."""

    def answer(self) -> Choices:
        """Return the choices of a model's next answer."""

    def result(self) -> Choices:
        """Return the choices of a tool's next result."""

    def fate(self, index: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to a turn; empty for none."""

    def oddity(self, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to the next answer; empty for none."""


class _Recorded:
    """Choices that are kept as a tape."""

    is_each = False

    def __init__(self, turns: int, personas: Choices) -> None:
        self.turns, self.personas = turns, personas
        self._fates: dict[int, str] = {}
        self._turns: list[_TurnRecord] = []

    def _begin(
        self, user: Choices, orders: Choices, answers: Iterable[Choices], results: Iterable[Choices]
    ) -> None:
        """Begin a turn; answers and results beyond those given are the simplest ones."""
        turn = _TurnRecord(user, orders, iter(answers), iter(results), [], [], [])
        self._turns.append(turn)

    def user(self) -> Choices:
        """Return the choices of who speaks in the turn, and what is said."""
        return self._turns[-1].user

    def order(self) -> Choices:
        """Return the choices of the order in which models of the turn are answered."""
        return self._turns[-1].orders

    def answer(self) -> Choices:
        """Return the choices of a model's next answer."""
        turn = self._turns[-1]
        turn.answers.append(next(turn.coming_answers, Choices()))
        turn.oddities.append("")
        return turn.answers[-1]

    def result(self) -> Choices:
        """Return the choices of a tool's next result."""
        turn = self._turns[-1]
        turn.results.append(next(turn.coming_results, Choices()))
        return turn.results[-1]

    def fate(self, index: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to a turn; empty for none."""
        fate = self._fates[index] = self._rare(index, 0, shares)
        return fate

    def oddity(self, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to the answer that was chosen last; empty for none."""
        turn = self._turns[-1]
        turn.oddities[-1] = self._rare(len(self._turns) - 1, len(turn.answers), shares)
        return turn.oddities[-1]

    def tape(self) -> ChoiceLog:
        """Return the choices that were used."""
        turns = (turn.tape(self._fates.get(index, "")) for index, turn in enumerate(self._turns))
        return ChoiceLog(tuple(turns), _used(self.personas))

    def _rare(self, index: int, answer: int, shares: Mapping[str, float]) -> str:
        """Return which rare thing happens to an answer of a turn, counted from 1; 0: to the turn.

        It is empty for none.
        """
        raise NotImplementedError


class _TurnRecord(NamedTuple):
    user: Choices
    orders: Choices
    coming_answers: Iterator[Choices]
    coming_results: Iterator[Choices]
    answers: list[Choices]
    oddities: list[str]
    results: list[Choices]

    def tape(self, fate: str) -> TurnLog:
        pairs = zip(self.answers, self.oddities, strict=True)
        return TurnLog(
            _used(self.user),
            _used(self.orders),
            fate,
            _trimmed([AnswerLog(_used(choices), oddity) for choices, oddity in pairs], _PLAIN),
            _trimmed([_used(choices) for choices in self.results], ()),
        )


_PLAIN: Final = AnswerLog()


def _used(choices: Choices) -> tuple[int, ...]:
    return _trimmed(choices.digits, 0)


def _trimmed(values: Sequence[T], simplest: T) -> tuple[T, ...]:
    """Return values without those at the end that are the simplest anyway."""
    count = len(values)
    while count and values[count - 1] == simplest:
        count -= 1
    return tuple(values[:count])


class RandomChoices(_Recorded):
    """The choices of a plan."""

    def __init__(self, plan: Plan, names: Sequence[str] = ()) -> None:
        """``names`` are those of all rare things, of which the plan enables some."""
        super().__init__(len(plan.turns), Choices(plan.personas))
        self._plan = plan
        self._enabled = {name for name, flag in zip(names, plan.enabled, strict=False) if flag}

    def begin_turn(self, index: int) -> None:
        """Begin the choices of a turn."""
        turn = self._plan.turns[index]
        answers, results = map(Choices, turn.answers), map(Choices, turn.results)
        self._begin(Choices(turn.user), Choices(turn.orders), answers, results)

    def _rare(self, index: int, answer: int, shares: Mapping[str, float]) -> str:
        numbers = self._plan.turns[index].rare
        number = numbers[answer] if answer < len(numbers) else 0
        if 3 * sum(shares.values()) <= 1:
            # Each is enabled in half of the conversations, and happens there twice as often.
            shares = {name: 2 * share for name, share in shares.items() if name in self._enabled}
        return rare(number, shares)


class ReplayedChoices(_Recorded):
    """The choices of a tape; what it does not say is the simplest choice."""

    def __init__(self, tape: ChoiceLog) -> None:
        super().__init__(len(tape.turns), _Digits(tape.personas))
        self._tape = tape

    def begin_turn(self, index: int) -> None:
        """Begin the choices of a turn."""
        turn = self._tape.turns[index]
        answers = (_Digits(answer.digits) for answer in turn.answers)
        self._begin(_Digits(turn.user), _Digits(turn.orders), answers, map(_Digits, turn.results))

    def _rare(self, index: int, answer: int, shares: Mapping[str, float]) -> str:
        turn = self._tape.turns[index]
        oddities = (turn.fate, *(each.oddity for each in turn.answers))
        kind = oddities[answer] if answer < len(oddities) else ""
        return kind if kind in shares else ""


class _Digits(Choices):
    """Choices whose digits are known; one that is too large is the largest that there is."""

    def __init__(self, digits: Sequence[int]) -> None:
        super().__init__()
        self._known = iter(digits)

    def below(self, count: int) -> int:
        """Return the next digit; 0 when none is left."""
        if count <= 1:
            return 0
        digit = min(next(self._known, 0), count - 1)
        self.digits.append(digit)
        return digit


def rare(number: int, shares: Mapping[str, float]) -> str:
    """Return which of the rare things happens; empty for none.

    ``number`` is below `ODDS`; 0 means that nothing happens, and so do small numbers.
    """
    if number == 0:
        return ""
    remaining = ODDS - number
    for name, share in shares.items():
        remaining -= round(share * ODDS)
        if remaining <= 0:
            return name
    return ""


# Values that a JSON Schema allows, decided by choices


_DEEP: Final = 8
"""How far a schema is followed; below, values are examples."""
_ITEMS_MAX: Final = 2
"""The number of items beyond the least that a list may have."""
_KNOWN_WEIGHT: Final = 7
"""How much likelier a text that the conversation knows is than another one."""
_UNLIKELY: Final[Sequence[Any]] = ({"not": "this"}, [], 7.5)
"""Values that few schemas allow."""
_BOUNDS: Final = ("pattern", "minLength", "maxLength")
_NUMBERS: Final = (0, 1, -1, 2, 100)


def value_of(
    schema: Any, choices: Choices, known: Sequence[str], schemas: Mapping[str, Any]
) -> Any:
    """Return a value that the schema allows; raise ValueError if none is known.

    ``known`` are texts of the conversation, ``schemas`` those that a ``$ref`` may name.
    """
    for value in (_Maker(schema, choices, known).make(schema, "value", 0), example_of(schema)):
        if not schema_errors(schema, value, schemas):
            return value
    raise ValueError("no value of this schema is known")


def wrong_value(schema: Any, value: Any, choices: Choices, schemas: Mapping[str, Any]) -> Any:
    """Return a mapping near ``value`` that the schema does not allow; None if none is known."""
    if not isinstance(value, dict):
        return None
    required = schema.get("required") or () if isinstance(schema, Mapping) else ()
    candidates = [{k: v for k, v in value.items() if k != name} for name in required]
    candidates += [{**value, name: wrong} for name in value for wrong in _UNLIKELY]
    invalid = [candidate for candidate in candidates if schema_errors(schema, candidate, schemas)]
    return choices.one_of(invalid) if invalid else None


class _Maker:
    def __init__(self, root: Any, choices: Choices, known: Sequence[str]) -> None:
        self._root, self._choices, self._known = root, choices, known

    def make(self, schema: Any, name: str, depth: int) -> Any:
        """Return a value; ``name`` is the key under which it stands."""
        if not isinstance(schema, Mapping) or depth > _DEEP:
            return name
        if "$ref" in schema:
            return self.make(schema_at(self._root, str(schema["$ref"])), name, depth + 1)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._choices.one_of(schema["enum"])
        members = schema.get("anyOf") or schema.get("oneOf")
        if members:
            return self.make(self._choices.one_of(members), name, depth + 1)
        if schema.get("allOf"):
            return self._all_of(schema["allOf"], name, depth)
        return self._of_type(type_of(schema), schema, name, depth)

    def _all_of(self, parts: Sequence[Any], name: str, depth: int) -> Any:
        merged: dict[str, Any] = {}
        for part in parts:
            value = self.make(part, name, depth + 1)
            if not isinstance(value, dict):
                return value
            merged |= value
        return merged

    def _of_type(self, kind: str, schema: Mapping[str, Any], name: str, depth: int) -> Any:
        choices = self._choices
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            least = schema.get("minItems", 0)
            most = min(schema.get("maxItems", least + _ITEMS_MAX), least + _ITEMS_MAX)
            count = least + choices.below(most - least + 1)
            return [self.make(schema.get("items", {}), name, depth + 1) for _ in range(count)]
        if kind == "boolean":
            return bool(1 - choices.below(2))
        example = example_of(schema, name)
        if kind == "string" and not format_of(schema, name):
            return self._text(example, schema)
        if kind in ("integer", "number"):
            return choices.one_of([example, *_NUMBERS])
        return example

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        required = schema.get("required") or ()
        inner = schema.get("properties") or {}
        keys = [key for key in inner if key in required or self._choices.below(2)]
        keys += [key for key in required if key not in inner]
        return {key: self.make(inner.get(key, {}), key, depth + 1) for key in keys}

    def _text(self, example: Any, schema: Mapping[str, Any]) -> Any:
        """Return a text that the conversation knows, or now and then another one.

        It is never empty: a model that hands on nothing is no fault of the pipeline.
        """
        texts = self._known
        if "pattern" in schema:
            bounds = {key: schema[key] for key in _BOUNDS if key in schema}
            texts = [text for text in texts if not schema_errors(bounds, text)]
        return self._choices.weighted([*((text, _KNOWN_WEIGHT) for text in texts), (example, 1)])
