"""The rules of providers' prompt caches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simkit.providers.caching import CACHING_DATE, CACHING_RULES, caching_rule


@pytest.mark.parametrize(
    ("model", "provider", "least"),
    [
        ("gpt-5-mini", "OpenAI", 1024),
        ("openai/gpt-4o", "OpenAI", 1024),
        ("o3", "OpenAI", 1024),
        ("gpt-5.6", "OpenAI, from GPT-5.6 on", 1024),
        ("claude-opus-5", "Anthropic", 512),
        ("claude-haiku-4-5-20251001", "Anthropic", 4096),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "Anthropic", 1024),
        ("gemini-2.5-flash", "Google", 2048),
        ("gemini-3.5-flash", "Google", 4096),
        ("deepseek-chat", "DeepSeek", 64),
        ("llama-3", None, 0),
        ("gpt4all", None, 0),
    ],
)
def test_a_models_name_finds_its_rule(model: str, provider: str | None, least: int) -> None:
    rule = caching_rule(model)

    assert (None if rule is None else rule.provider) == provider
    assert rule is None or rule.least == least


def test_every_rule_names_its_source() -> None:
    assert [rule for rule in CACHING_RULES if not rule.source.startswith("https://")] == []


def test_what_is_reused_comes_in_steps_from_a_minimum_on() -> None:
    rule = caching_rule("gpt-5-mini")
    assert rule is not None

    assert [rule.reused(tokens) for tokens in (1023, 1024, 1151, 1152)] == [0, 1024, 1024, 1152]


def test_the_page_says_the_numbers_of_the_rules_and_their_day() -> None:
    page = Path("docs/how-to/prompt-caches.md").read_text(encoding="utf-8")
    heads = {"OpenAI": "OpenAI's", "Anthropic": "Anthropic's", "Google": "Gemini"}

    assert CACHING_DATE in page
    for rule in CACHING_RULES:
        head = heads.get(rule.provider, rule.provider.removeprefix("OpenAI, from "))
        head = head.removesuffix(" on").replace("DeepSeek", "DeepSeek's")
        (row,) = (line for line in page.splitlines() if line.startswith(f"| [{head}"))
        least = [int(number.replace(",", "")) for number in re.findall(r"\b[\d,]{2,}\b", row)]
        assert min(least) <= rule.least <= max(least)
