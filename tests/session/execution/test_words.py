"""Words that instructions offer to a model are answers of drawn models, too."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from simkit.runtime.models.script import words_offered


@pytest.mark.parametrize(
    ("prompt", "names", "words"),
    [
        ("Answer with billing, refunds or sales.", (), ["billing", "refunds", "sales"]),
        ("Say yes or no.", (), ["no", "yes"]),
        ("Reply approve | reject", (), ["approve", "reject"]),
        ("Reply with 'good' or `bad`.", (), ["bad", "good"]),
        ("Pass on to desk when billing is needed.", ("billing", "desk"), ["billing", "desk"]),
        ("Only 'done' is an answer.", (), []),
        ("You help.", ("desk",), []),
        ("'aa' 'bb' 'cc' 'dd' 'ee' 'ff' 'gg'", (), ["aa", "bb", "cc", "dd", "ee", "ff"]),
    ],
)  # fmt: skip
def test_lists_quotes_and_names_are_words_to_choose_from(
    prompt: str, names: Sequence[str], words: Sequence[str]
) -> None:
    assert [*words_offered(prompt, frozenset(names))] == [*words]
