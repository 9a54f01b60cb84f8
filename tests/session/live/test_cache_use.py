"""The reuse that a live run could have had, beside the count of the providers."""

from __future__ import annotations

import pytest

from simkit.core.messages import Message, Usage
from simkit.session.live.meter import CacheUse, cache_use
from simkit.spec.pipeline.models import Price, PriceTable
from tests.adapters.scribes import Desk, system, user

LONG = "Say what each repair of a bicycle costs, and be kind to all who ask. " * 90
PRICES = PriceTable(prices={"gpt-5-mini": Price(input=1.0, output=2.0, cached_input=0.1)})


@pytest.mark.parametrize(
    ("model", "front", "read", "use"),
    [
        ("gpt-5-mini", "", 0, CacheUse(1, 1976, 0, 1976 * 0.9 / 1_000_000)),
        ("gpt-5-mini", "", 1920, CacheUse(1, 1976, 1920, 56 * 0.9 / 1_000_000)),
        ("gpt-5-mini", "9. ", 0, CacheUse()),
        ("gpt-5", "", 0, CacheUse(1, 1976, 0, 0.0)),
        ("llama", "", 0, CacheUse()),
    ],
    ids=["not reused", "reused", "another front", "no price", "no rule"],
)
def test_the_providers_count_is_compared_with_what_could_be_reused(
    model: str, front: str, read: int, use: CacheUse
) -> None:
    desk = Desk()
    for text in ("", front):
        desk.turn("Hi")
        call = desk.asks([system(text + LONG), user("Hi")], model=model)
        answer = Message("assistant", "Well.")
        counted = Usage(2000, 9, read or None)
        desk.recorder.replied(desk.run(), call, answer, "text", counted)
        desk.ends("Well.")

    result = cache_use(desk.view, PRICES)

    assert result.lost_usd == pytest.approx(use.lost_usd)
    assert (result.calls, result.expected, result.read) == (use.calls, use.expected, use.read)
