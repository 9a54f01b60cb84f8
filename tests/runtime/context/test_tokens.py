from __future__ import annotations

import sys

import pytest

from simkit.core.errors import Unsupported
from simkit.core.messages import Message, ToolCall
from simkit.runtime.context import rendering
from simkit.runtime.context.rendering import Counter, counter_named, tokens_of

VOCABULARIES = ("o200k_base", "cl100k_base")


@pytest.fixture(params=VOCABULARIES)
def exact(request: pytest.FixtureRequest) -> Counter:
    pytest.importorskip("bpe_openai", reason="the extra `tokens` is not installed")
    return counter_named(request.param)


@pytest.mark.parametrize(
    ("text", "size"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("日本語", 1)]
)
def test_default_counter_counts_a_token_for_every_four_characters_begun(
    text: str, size: int
) -> None:
    assert counter_named("chars/4")(text) == size


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "size"),
    [
        # Published by OpenAI: "How to count tokens with tiktoken".
        ("cl100k_base", "antidisestablishmentarianism", 6),
        ("o200k_base", "antidisestablishmentarianism", 6),
        ("cl100k_base", "2 + 2 = 4", 7),
        ("o200k_base", "2 + 2 = 4", 7),
        ("cl100k_base", "お誕生日おめでとう", 9),
        ("o200k_base", "お誕生日おめでとう", 8),
    ],
)
def test_exact_counters_agree_with_what_is_published(name: str, text: str, size: int) -> None:
    pytest.importorskip("bpe_openai", reason="the extra `tokens` is not installed")

    assert counter_named(name)(text) == size


def test_exact_counters_read_special_words_as_text(exact: Counter) -> None:
    assert exact("<|endoftext|>") == 7


def test_exact_counters_count_half_a_surrogate(exact: Counter) -> None:
    assert exact("\ud800 x") > 0


@pytest.mark.parametrize("name", VOCABULARIES)
def test_exact_counters_refuse_a_text_that_is_too_long(name: str) -> None:
    pytest.importorskip("bpe_openai", reason="the extra `tokens` is not installed")
    count = counter_named(name)

    with pytest.raises(Unsupported) as refused:
        count("a" * 1_000_000)

    assert str(refused.value) == (
        f"token counter `{name}` counts texts of less than 1,000,000 characters, "
        "this one has 1,000,000. Count with `chars/4`."
    )


@pytest.mark.parametrize("name", VOCABULARIES)
def test_missing_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    monkeypatch.setattr(rendering, "_exact", rendering._exact.__wrapped__)

    with pytest.raises(Unsupported) as missing:
        counter_named(name)

    assert str(missing.value) == (
        f"token counter `{name}` needs its vocabulary: pip install 'bpe-openai>=0.1.4'"
    )


def test_unknown_counter_is_refused_naming_the_known_ones() -> None:
    with pytest.raises(Unsupported) as unknown:
        counter_named("words")

    assert str(unknown.value) == (
        "unknown token counter `words`. Known: chars/4, o200k_base, cl100k_base."
    )


def test_message_costs_its_content_and_its_calls() -> None:
    message = Message("assistant", "one", calls=(ToolCall("c1", "find", {"id": 7}),))

    assert tokens_of(message, len) == len("one") + len("find") + len('{"id":7}')
    assert tokens_of(Message("user", "four"), len) == 4
