"""Scores of given items: a number, or rules with a ``when`` that is matched with the query."""

from __future__ import annotations

from typing import Any

from simkit.core.errors import MatcherError
from simkit.language.json_schema import is_number
from simkit.language.matching import check
from simkit.language.matching.kinds import QUERY, check_kind
from simkit.language.yaml import Document, SourcePath

_RULE: tuple[str, ...] = ("when", "score")
_ADVICE = "Write a number, or a list of `{when: {$contains: …}, score: 0.9}`."


def check_scores(items: Any, document: Document, at: SourcePath) -> None:
    """Raise SourceError for the first invalid score in a channel of items."""
    if not isinstance(items, (list, tuple)):
        return
    for place, item in enumerate(items):
        score = item.get("score") if isinstance(item, dict) else None
        path = (*at, place, "score")
        if isinstance(score, (list, tuple)):
            for number, rule in enumerate(score):
                _check_rule(rule, document, (*path, number))
        elif score is not None and not is_number(score) and not _is_reference(score):
            raise document.error(path, "a score must be a number, or a list", advice=_ADVICE)


def _check_rule(rule: Any, document: Document, at: SourcePath) -> None:
    if not isinstance(rule, dict) or not is_number(rule.get("score")):
        raise document.error(at, "a rule of a score needs `score`, a number", advice=_ADVICE)
    for key in rule:
        if key not in _RULE:
            raise document.error(
                (*at, key),
                f"unknown key of a score's rule `{key}`",
                word=key,
                known=_RULE,
                key=True,
            )
    if rule.get("when") is None:
        return
    try:
        check(rule["when"])
        check_kind(rule["when"], QUERY)
    except MatcherError as problem:
        raise document.error(
            (*at, "when", *problem.path),
            problem.what,
            word=problem.word,
            known=problem.known,
            advice=problem.advice,
        ) from None


def _is_reference(score: Any) -> bool:
    return isinstance(score, str) and "${" in score
