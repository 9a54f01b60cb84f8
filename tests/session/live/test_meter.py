"""The meter of a live run: prices, tokens that nobody says, and busy providers."""

from __future__ import annotations

import json

import pytest

from simkit.capture.cassettes.traffic import Exchange
from simkit.core.errors import SimkitError
from simkit.core.messages import Usage
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.session.live.meter import Meter
from simkit.spec.pipeline.models import Price, PriceTable
from tests.recording import completion

PRICES = PriceTable(prices={"openai/m": Price(input=2, output=8)})


def exchange(number: int = 0, model: str = "m", key: str = "sk-1") -> Exchange:
    """Returns a model call that is about to be sent."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    request = HttpRequest(
        "POST",
        "https://api.openai.com/v1/chat/completions",
        (("authorization", f"Bearer {key}"),),
        json.dumps(body).encode(),
    )
    return Exchange(number, "a", 1, request, None, None)


def completed(usage: tuple[int, int] | None) -> HttpResponse:
    """Returns what a provider answers, with its tokens."""
    if usage is None:
        return completion("hello")
    tokens = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return completion("hello", usage=tokens)


def measured(meter: Meter, *answers: HttpResponse) -> None:
    for number, answer in enumerate(answers):
        meter.before_request(exchange(number))
        meter.after_answer(exchange(number), answer)


def test_a_call_costs_what_its_tokens_cost() -> None:
    meter = Meter(PRICES)

    measured(meter, completed((1_000, 100)), HttpResponse(500, (), (b"",)), completed(None))

    assert [call.cost_usd for call in meter.calls] == [pytest.approx(0.0028), 0.0, None]
    assert [call.status for call in meter.calls] == [200, 500, 200]
    assert meter.calls[0].usage == Usage(1_000, 100)


def test_calls_of_users_have_numbers_of_their_own_and_one_allowance() -> None:
    meter = Meter(PRICES, allowance_usd=0.005)
    users = meter.of_users()

    users.before_request(exchange(0))
    meter.before_request(exchange(0))
    users.after_answer(exchange(0), completed((1_000, 100)))
    meter.after_answer(exchange(0), completed((1_500, 0)))

    assert [call.is_of_user for call in meter.calls] == [True, False]
    assert [call.usage.input_tokens for call in meter.calls] == [1_000, 1_500]
    with pytest.raises(SimkitError, match="has cost"):
        users.before_request(exchange(1))
    assert meter.is_spent


def test_users_whose_key_works_hide_no_refusal_of_the_pipelines_key() -> None:
    meter = Meter(PRICES)
    users = meter.of_users()
    users.before_request(exchange(0))
    users.after_answer(exchange(0), completed((1, 1)))
    measured(meter, HttpResponse(401, (), (b"",)))

    with pytest.raises(SimkitError, match="refused the key"):
        meter.check_refusals()


def test_tokens_of_the_cache_have_their_own_price() -> None:
    usage = Usage(1_000, 0, cached_tokens=600, cache_write_tokens=100)
    price = Price(input=10, output=0, cached_input=1, cache_write=12.5)

    assert price.cost_of(usage) == pytest.approx((300 * 10 + 600 * 1 + 100 * 12.5) / 1e6)
    assert Price(input=10, output=0).cost_of(usage) == pytest.approx(0.01)


def test_a_model_without_a_price_is_not_asked_under_a_budget() -> None:
    with pytest.raises(SimkitError, match="the price of model `other` is not known"):
        Meter(PRICES, needs_prices=True).before_request(exchange(model="other"))

    Meter(PRICES).before_request(exchange(model="other"))


def test_no_call_follows_one_that_spends_the_allowance() -> None:
    meter = Meter(PRICES, allowance_usd=0.002)
    measured(meter, completed((1_000, 100)))

    with pytest.raises(SimkitError, match=r"the run has cost \$0.0028, and is stopped"):
        meter.before_request(exchange(1))


def test_a_busy_provider_is_waited_for_as_long_as_it_asks() -> None:
    pauses: list[float] = []
    meter = Meter(PRICES, waits=True, sleep=pauses.append)
    busy = HttpResponse(429, (), (b"",))

    measured(
        meter,
        HttpResponse(429, (("Retry-After", "7"),), (b"",)),
        HttpResponse(503, (("retry-after", "900"),), (b"",)),
        completed((1, 1)),
        *(busy, busy, busy),
    )

    assert pauses == [7.0, 60.0, 1.0, 2.0, 4.0]


def test_clients_that_wait_themselves_are_left_alone() -> None:
    pauses: list[float] = []

    measured(Meter(PRICES, sleep=pauses.append), HttpResponse(429, (), (b"",)))

    assert pauses == []


def test_a_call_without_an_answer_is_counted_and_its_cost_is_not_known() -> None:
    meter = Meter(PRICES)

    meter.before_request(exchange())

    (call,) = meter.calls
    assert (call.status, call.cost_usd, call.usage) == (0, None, Usage())
