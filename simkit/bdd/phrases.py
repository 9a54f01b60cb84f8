"""Phrases: the words of a step with typed holes in them, and templates of values.

A phrase is written as in a feature: ``{agent} calls {tool:word}[ with {values}]``. A hole's name is
its kind, unless a kind follows a colon; ``[…]`` may be left out; ``(is|are)`` is one of the two. A
phrase with a colon at its end takes a table or a text below it.

Each phrase has a template of its value, in which a text ``"{agent}"`` is replaced by the value of
that hole:

- a hole that is left out removes its key or item, and the mapping or list around it, if that is
  empty then;
- ``"{:pairs}"`` is the table or text below the step, in one of the forms of ``FORMS``;
- ``"{names:agent}"`` is the kind of name, if the hole has another name;
- the key ``"|"`` alone has a list of alternatives: the first one with all holes filled counts;
- the key ``"**"`` adds the entries of a mapping to those beside it.

All phrases are in ``steps.yaml``. The kinds of holes are an agent, a value, a count, a time;
``conditions`` adds those of conditions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from simkit.bdd.cells import ROLES, TableInvalid, typed
from simkit.providers.failures import FAILURES
from simkit.spec.scenario.model import ScenarioLimits

_PART: Final = re.compile(r"\{(\w+)(?::(\w+))?\}|\(([^()]*)\)|(\[)|(\])|([^{}()\[\]]+)")
LEFT_OUT: Final = object()
"""The value of a hole that a line leaves out."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of ``steps.yaml``: a phrase, and what it stands for."""

    text: str
    """The phrase; with a colon at its end it requires a part below it."""
    does: str = ""
    """The name of the function for the step; empty if the row is one claim."""
    claim: str = ""
    """The claim that it makes: `reply`, `context.tokens`."""
    is_of_run: bool = False
    """Whether its claim is about the whole run, whatever turn the line is about."""
    path: tuple[str, ...] = ()
    """The path of the scenario under which it puts a value."""
    value: Any = None
    """The template of what it gives, says or claims."""
    example: str = ""
    """The line in a feature, if the words with filled holes do not show it."""


ROWS: Final = msgspec.yaml.decode(
    Path(__file__).with_name("steps.yaml").read_bytes(), type=dict[str, list[Row]]
)


class Unreadable(ValueError):
    """The text in a hole is not of its kind."""


class Kind(NamedTuple):
    """A kind of hole."""

    pattern: str
    """A regular expression without named groups."""
    read: Callable[[str], Any]
    """Returns the value; raises Unreadable if the pattern is too wide."""
    example: str
    says: str
    """Its description on the page of phrases."""


class Phrase:
    """Words with holes, and their recognition."""

    def __init__(self, text: str, kinds: Mapping[str, Kind]) -> None:
        self.text = text
        self._holes: dict[str, Kind] = {}
        self.example = ""
        """The phrase as in a feature, with every hole filled."""
        pattern = ""
        for hole, kind, choice, opens, closes, words in _PART.findall(text):
            if hole:
                self._holes[hole] = kinds[kind or hole]
                pattern += f"(?P<{hole}>{self._holes[hole].pattern})"
                self.example += self._holes[hole].example
            elif choice:
                pattern += f"(?:{'|'.join(map(re.escape, choice.split('|')))})"
                self.example += choice.split("|")[0]
            elif opens or closes:
                pattern += "(?:" if opens else ")?"
            else:
                pattern += re.escape(words)
                self.example += words
        self._matches = re.compile(pattern, re.DOTALL).fullmatch

    def holes_in(self, content: str) -> dict[str, Any] | None:
        """Return the values of the holes, without those left out; None if the text does not fit."""
        match = self._matches(content)
        if match is None:
            return None
        try:
            return {
                hole: self._holes[hole].read(text)
                for hole, text in match.groupdict().items()
                if text is not None
            }
        except (Unreadable, TableInvalid):
            return None


def fill(template: Any, hole_value: Callable[[str], Any]) -> Any:
    """Return the value of a template.

    ``hole_value`` returns the value of a hole, ``LEFT_OUT`` if it has none.
    """
    if isinstance(template, str):
        return hole_value(template[1:-1]) if template.startswith("{") else template
    if isinstance(template, dict) and "|" in template:
        options = template["|"]
        whole = (each for each in options if LEFT_OUT not in map(hole_value, holes_of(each)))
        return fill(next(whole, options[-1]), hole_value)
    if isinstance(template, list):
        items = [fill(inner, hole_value) for inner in template]
        filled: Any = [item for item in items if item is not LEFT_OUT]
    elif isinstance(template, dict):
        filled = _fill_mapping(template, hole_value)
    else:
        return template
    return filled if filled or not template else LEFT_OUT


def _fill_mapping(template: Mapping[str, Any], hole_value: Callable[[str], Any]) -> dict[Any, Any]:
    """Return a mapping's value; the mapping under ``**`` is merged into it."""
    filled: dict[Any, Any] = {}
    for key, inner in template.items():
        value = fill(inner, hole_value)
        if key == "**" and value is not LEFT_OUT:
            filled |= value
        elif value is not LEFT_OUT:
            filled[fill(key, hole_value)] = value
    return filled


def holes_of(template: Any) -> Iterator[str]:
    """Yield the holes that a template names."""
    if isinstance(template, str):
        if template.startswith("{"):
            yield template[1:-1]
    elif isinstance(template, (list, tuple, dict)):
        parts = template.items() if isinstance(template, dict) else template
        for part in parts:
            yield from holes_of(part)


TEXT: Final = r'"(?:[^"\\]|\\.)*"'
LIST: Final = rf"\[(?:{TEXT}|[^\[\]\"])*\]"
VALUE: Final = rf"(?:{TEXT}|{LIST}|[-+]?\d+(?:\.\d+)?(?!\w)|(?:true|false|null)\b)"
NAME: Final = r"[^\W\d]\w*"
NAMES: Final = rf"{NAME}(?:[ -]\w+)*?"
AGENT: Final = rf"(?:[Tt]he )?{NAMES}"
AND: Final = r"(?:, and |, | and )"
OR: Final = r"(?:, or |, | or )"
GROUP_WORD: Final = " beside "
FIRST_WORDS: Final = ("first", "second", "third", "fourth", "fifth")
COUNT_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MEASURES: Final[Mapping[str, str]] = {
    "at least ": "$gte",
    "at most ": "$lte",
    "more than ": "$gt",
    "fewer than ": "$lt",
    "less than ": "$lt",
    "about ": "$approx",
    "": "",
}
_ORDINAL: Final = rf"(?:{'|'.join(FIRST_WORDS)}|\d+(?:st|nd|rd|th)|last)"
_IN_ITS: Final = " in its "
_COUNT: Final = rf"(?:\d+|{'|'.join(COUNT_WORDS)})"
_MEASURE: Final = f"(?:{'|'.join(word for word in MEASURES if word)})?"
_PERCENT: Final = r"\d+(?:\.\d+)? ?%"
_DAY: Final = r"\d{4}-\d\d-\d\d"
_TIME: Final = rf"{_DAY}(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d)?)?"
_PAIR: Final = rf"{NAME} {VALUE}"
_NOT_A_PIECE: Final = re.compile(rf"({TEXT}|{LIST}|/(?:[^/\\]|\\.)+/)")


class Chosen(NamedTuple):
    """One of an agent's contexts or runs, or all of them."""

    agent: str
    """The agent as written; ``*`` is every agent."""
    place: str
    """The index, from 0, or from -1 at the end; ``*`` for all, ``any`` for some; empty if the
    claim itself decides: denials concern all, affirmations the first."""
    run: str = ""
    """The index of the agent's run with the contexts; empty for all runs."""

    def key(self, agent_name: Callable[[str], str]) -> str:
        """Return the reply's key in the syntax of a scenario file: `coach[run 0][1]`."""
        agent = self.agent if self.agent == "*" else agent_name(self.agent)
        run = f"[run {self.run}]" if self.run else ""
        return f"{agent}{run}[{self.place}]" if self.place else f"{agent}{run}"


def agent_of(text: str) -> str:
    """Return an agent's name without its article."""
    return text[4:] if text[:4].lower() == "the " else text


def split_outside(text: str, separators: str) -> list[str]:
    """Return the pieces of a text with the separators between them; quoted ones are ignored."""
    pieces = [""]
    for index, part in enumerate(_NOT_A_PIECE.split(text)):
        if index % 2:
            pieces[-1] += part
            continue
        first, *rest = re.split(f"({separators})", part)
        pieces[-1] += first
        pieces += rest
    return pieces


def _list(text: str, separators: str) -> list[str]:
    return split_outside(text, separators)[::2]


def _groups(text: str) -> list[Any]:
    """Return agents in order; parallel ones are a list of their own."""
    groups: list[Any] = []
    for item in re.split(AND, text):
        group = [agent_of(name) for name in item.split(GROUP_WORD)]
        groups.append(group if len(group) > 1 else group[0])
    return groups


def _values(text: str) -> dict[str, Any]:
    pairs = [piece.partition(" ") for piece in _list(text, AND)]
    if len({name for name, _, _ in pairs}) < len(pairs):
        raise Unreadable(text)
    return {name: typed(value) for name, _, value in pairs}


def _texts(text: str) -> Any:
    """Return one text, or a list of several."""
    texts = [typed(item) for item in _list(text, AND)]
    return texts[0] if len(texts) == 1 else texts


def count_of(text: str) -> int:
    """Return a count in digits or as a word."""
    return COUNT_WORDS.index(text) if text in COUNT_WORDS else int(text)


def _measured(text: str, read: Any) -> Any:
    """Return a plain number, or the matcher of ``at most 3``."""
    measure = next(word for word in MEASURES if text.startswith(word))
    number = read(text.removeprefix(measure))
    return {MEASURES[measure]: number} if measure else number


def share_of(text: str) -> float:
    """Return a percentage as a share of 1."""
    return round(float(text.removesuffix("%").strip()) / 100, 6)


def _share(text: str) -> Any:
    return 0 if text == "nothing" else _measured(text, share_of)


def _chosen(noun: str) -> Kind:
    def read(text: str) -> Chosen:
        if text in (f"every {noun}", f"the {noun} of every agent"):
            return Chosen("*", "")
        head, _, run = text.partition(_IN_ITS)
        if not re.fullmatch(rf"(?:{_ORDINAL} run)?", run):
            head, run = text, ""  # An agent's name may have any words.
        place, _, agent = (
            head.rpartition(f"{noun} of ") if f"{noun} of " in head else ("", "", head)
        )
        which = _place(place.removeprefix("the ").strip())
        return Chosen(agent_of(agent), which, _place(run.removesuffix("run").strip()))

    whole = rf"every {noun}|the {noun} of every agent"
    selector = rf"(?:every|some|the(?: {_ORDINAL})?) {noun} of {AGENT}"
    in_run = "" if noun == "run" else rf"(?:{_IN_ITS}{_ORDINAL} run)?"
    pattern = rf"(?:{whole}|{selector}{in_run})"
    says = f"a {noun} of an agent: the first, the last, some or every one"
    return Kind(pattern, read, f"the {noun} of nutrition", says)


def _place(word: str) -> str:
    if word in FIRST_WORDS:
        return str(FIRST_WORDS.index(word))
    special = {"": "", "last": "-1", "every": "*", "some": "any"}
    return special[word] if word in special else str(int(re.sub(r"\D", "", word)) - 1)


def _run() -> Kind:
    chosen = _chosen("run")
    return chosen._replace(pattern=rf"(?:{chosen.pattern}|{AGENT})", example="nutrition")


def _words(names: Sequence[str]) -> str:
    """Return a pattern of names with spaces instead of underscores; longer ones first."""
    return f"(?:{'|'.join(sorted((name.replace('_', ' ') for name in names), reverse=True))})"


KINDS: Final[Mapping[str, Kind]] = {
    "agent": Kind(AGENT, agent_of, "nutrition", "an agent, by its name in the file or in words"),
    "agents": Kind(rf"{AGENT}(?:(?:{AND}|{GROUP_WORD}){AGENT})*", _groups, "router and nutrition",
        "agents, one after the other; `beside` joins two that ran side by side"),
    "channel": Kind(NAMES, str, "notes", "a channel of the pipeline, with underscores or blanks"),
    "context": _chosen("context"),
    "count": Kind(_COUNT, count_of, "2", "a count, in digits or words"),
    "amount": Kind(f"{_MEASURE}{_COUNT}", lambda text: _measured(text, count_of), "at most 2",
        "a count, alone or after `at least`, `at most`, `more than`, `fewer than`, `about`"),
    "failure": Kind(f"(?:{'|'.join(FAILURES)})", str, "rate_limit", "how a provider fails"),
    "lint": Kind(r"[A-Z]{3}-\d+", str, "CTX-02", "a lint's id"),
    "limit": Kind(_words(list(ScenarioLimits.model_fields)), lambda text: text.replace(" ", "_"),
        "handoffs per turn", "a limit of a scenario"),
    "list": Kind(rf"{VALUE}(?:(?:{AND}|{OR}){VALUE})*",
        lambda text: [typed(item) for item in _list(text, f"{AND}|{OR}")],
        '"pizza" and "pasta"', "values"),
    "name": Kind(NAMES, str, "analysis delegation", "a name, with underscores or blanks"),
    "names": Kind(rf"{NAMES}(?:{AND}{NAMES})*", lambda text: re.split(AND, text),
        "instructions and history", "names"),
    "number": Kind(r"[-+]?\d+(?:\.\d+)?", typed, "8", "a number"),
    "percent": Kind(_PERCENT, share_of, "5 %", "a percentage"),
    "role": Kind(f"(?:{'|'.join(ROLES)})", str, "user", "a message's role"),
    "share": Kind(f"(?:{_MEASURE}{_PERCENT}|nothing)", _share, "at most 20 %",
        "a percentage, alone or after the words of an amount"),
    "text": Kind(TEXT, typed, '"pizza"', "a text in quotes"),
    "texts": Kind(rf"{TEXT}(?:{AND}{TEXT})*", _texts, '"pizza" and "lunch"', "texts in quotes"),
    "time": Kind(_TIME, lambda text: text.replace(" ", "T"), "2026-01-05 09:00",
        "a time, in UTC if it has no zone"),
    "value": Kind(VALUE, typed, '"Europe/Berlin"', 
        "a text in quotes, a number, true, false, null, a list in brackets"),
    "values": Kind(
        rf"{_PAIR}(?:{AND}{_PAIR})*", _values, 'food "pizza" and kcal 800', "names with values"),
    "run": _run(),
    "word": Kind(NAME, str, "log_meal", "a name, as the pipeline writes it"),
}  # fmt: skip
"""Every kind of hole by its name."""
