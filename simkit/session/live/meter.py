"""The meter of a live run: tokens, cost and latency of its model calls, its allowance; rates."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from statistics import NormalDist
from typing import Final, TypeAlias

import msgspec

from simkit.capture.cassettes.traffic import Exchange, TrafficObserver, decoded_response
from simkit.capture.cassettes.values import NotDecodable
from simkit.checks.cache_reuse import model_of, reused_tokens, rule_of
from simkit.core.errors import SimkitError, WireInvalid
from simkit.core.messages import Usage
from simkit.providers.http import HttpAnswer, HttpRequest, HttpResponse, header
from simkit.providers.protocols import protocol_of
from simkit.spec.pipeline.models import PriceTable
from simkit.trace.views import View, prefix_of

REFUSED: Final = (401, 403)
"""The statuses with which providers refuse a key."""
UNKNOWN: Final = 404
"""The status of a model, or of an address, that the provider does not have."""
BUSY: Final = (429, 503, 529)
"""The statuses after which clients try again later."""
WAIT_MAX_S: Final = 60.0
"""The longest wait for a busy provider in seconds."""


_Key: TypeAlias = tuple[bool, int]
"""Whether a call is one of a simulated user, and its number among those."""


class ModelCallFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One model call that was sent."""

    agent: str
    turn: int
    model: str
    milliseconds: float
    """Real time from the request to the last byte of the answer."""
    status: int
    """The status of the response; 0 if there was none."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    """The cost in US dollars; None if it is not known."""
    is_of_user: bool = False
    """Whether the model of a simulated user was asked, and not the pipeline's."""


class Meter:
    """Measures the model calls of one run; any number of threads may send them."""

    def __init__(
        self,
        prices: PriceTable,
        *,
        allowance_usd: float | None = None,
        needs_prices: bool = False,
        waits: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """A run whose calls have cost ``allowance_usd`` sends no further one; None is no limit.

        With ``needs_prices`` no call is sent whose price is not known. With ``waits`` the answer of
        a busy provider is passed on only after the time that it asks for: the clock of code is
        virtual, so that a client that waits before it tries again takes no time.
        """
        self._waits, self._sleep = waits, sleep
        self._failures = 0
        """The number of busy answers in a row."""
        self._prices, self._allowance_usd, self._needs_prices = prices, allowance_usd, needs_prices
        self.is_spent = False
        """Whether a call was refused because the allowance is spent."""
        self.has_refused = False
        """Whether a call was refused since a price is missing."""
        self._count = 0
        self._started: dict[_Key, tuple[int, Exchange, float]] = {}
        """The calls without an answer so far: their places among all, and when they were sent."""
        self._calls: dict[int, ModelCallFacts] = {}
        self._lock = threading.Lock()

    def of_users(self) -> TrafficObserver:
        """Return the observer of simulated users' calls, which have numbers of their own."""
        return _UserMeter(self)

    @property
    def calls(self) -> tuple[ModelCallFacts, ...]:
        """Return the calls in the order in which they were sent.

        Those without an answer so far may cost something, too: nothing of that is known.
        """
        with self._lock:
            open_calls = {
                number: ModelCallFacts(
                    agent=exchange.agent,
                    turn=exchange.turn,
                    model=_model_of(exchange.request) or "",
                    milliseconds=(time.perf_counter() - started) * 1_000,
                    status=0,
                    is_of_user=is_of_user,
                )
                for (is_of_user, _), (number, exchange, started) in self._started.items()
            }
            calls = {**self._calls, **open_calls}
            return tuple(calls[number] for number in sorted(calls))

    def before_request(self, exchange: Exchange, *, is_of_user: bool = False) -> None:
        """Start the clock of a model call; raise SimkitError for one that must not be sent."""
        model = _model_of(exchange.request)
        if model is None:
            return
        problem = self._missing_price(model)
        if problem:
            self.has_refused = True
            raise SimkitError(problem)
        with self._lock:
            spent = sum(call.cost_usd or 0 for call in self._calls.values())
            if self._allowance_usd is not None and spent >= self._allowance_usd:
                self.is_spent = True
                raise SimkitError(f"the run has cost ${spent:.4f}, and is stopped")
            key = is_of_user, exchange.number
            self._started[key] = self._count, exchange, time.perf_counter()
            self._count += 1

    def after_answer(
        self, exchange: Exchange, answer: HttpAnswer, *, is_of_user: bool = False
    ) -> None:
        """Measure an answered model call."""
        ended = time.perf_counter()
        with self._lock:
            open_call = self._started.pop((is_of_user, exchange.number), None)
        if open_call is None:
            return
        number, _, started = open_call
        model = _model_of(exchange.request) or ""
        usage = _usage_of(exchange.request, answer)
        price = self._prices.price_of(model)
        with self._lock:
            self._calls[number] = ModelCallFacts(
                agent=exchange.agent,
                turn=exchange.turn,
                model=model,
                milliseconds=(ended - started) * 1_000,
                status=answer.status if isinstance(answer, HttpResponse) else 0,
                usage=usage,
                cost_usd=None if price is None else price.cost_of(usage),
                is_of_user=is_of_user,
            )
        self._wait_for_provider(answer)

    def _missing_price(self, model: str) -> str:
        """Return the error about a price that a budget needs; empty if it is known."""
        if not self._needs_prices or self._prices.price_of(model) is not None:
            return ""
        return (
            f"the price of model `{model}` is not known, so no request is sent under "
            "--budget-usd\n"
            f"  Add it to the file of prices (--prices): `prices: {{{model}: "
            "{input: …, output: …}}`, in US dollars for a million tokens."
        )

    def _wait_for_provider(self, answer: HttpAnswer) -> None:
        """Wait as long as a busy provider asks for, else twice as long each time."""
        is_busy = isinstance(answer, HttpResponse) and answer.status in BUSY
        self._failures = self._failures + 1 if is_busy else 0
        if is_busy and self._waits:
            assert isinstance(answer, HttpResponse)
            try:
                seconds = float(header(answer.headers, "retry-after"))
            except ValueError:
                seconds = 0.5 * 2**self._failures
            self._sleep(min(max(seconds, 0.0), WAIT_MAX_S))

    def check_refusals(self) -> None:
        """Raise SimkitError if the provider refused the key, or the model, in every call.

        Calls of simulated users, who may have another provider, do not count.
        """
        calls = [call for call in self.calls if not call.is_of_user]
        statuses = {call.status for call in calls}
        models = ", ".join(sorted({f"`{call.model}`" for call in calls}))
        if statuses and statuses <= {*REFUSED}:
            raise SimkitError(
                f"the provider refused the key for {models} (status {min(statuses)})\n"
                "  Set a valid key in the environment."
            )
        if statuses == {UNKNOWN}:
            raise SimkitError(
                f"the provider has no {models} at this address (status {UNKNOWN})\n"
                "  Correct the name of the model, or the address in the environment."
            )


class _UserMeter:
    """The part of a meter that measures the calls of simulated users' models."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def before_request(self, exchange: Exchange) -> None:
        """Start the clock of a model call; raise SimkitError for one that must not be sent."""
        self._meter.before_request(exchange, is_of_user=True)

    def after_answer(self, exchange: Exchange, answer: HttpAnswer) -> None:
        """Measure an answered model call."""
        self._meter.after_answer(exchange, answer, is_of_user=True)


def _model_of(request: HttpRequest) -> str | None:
    """Return the model of a model call; None for other requests."""
    protocol = protocol_of(request)
    return None if protocol is None else protocol.parse_request(request).model


def _usage_of(request: HttpRequest, answer: HttpAnswer) -> Usage:
    """Return the tokens of a call: none of a failed one, unknown ones if the provider is silent."""
    if not isinstance(answer, HttpResponse) or answer.status >= 400:
        return Usage(0, 0)
    protocol = protocol_of(request)
    assert protocol is not None
    try:
        parsed = protocol.parse_response(decoded_response(answer), protocol.parse_request(request))
    except (WireInvalid, NotDecodable):
        return Usage()
    return parsed.usage or Usage()


# Estimates from live runs: rates with intervals, pass@k, percentiles, the reuse of caches


CONFIDENCE: Final = 0.95
_Z: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


class Rate(msgspec.Struct, frozen=True):
    """A number of runs, and how many of them passed."""

    passes: int
    runs: int

    @property
    def share(self) -> float:
        """Return the share that passed; 0 without runs."""
        return self.passes / self.runs if self.runs else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return the Wilson score interval of the true share, with 95 % confidence.

        With n runs of which the share p passed, and z = 1.96, its middle is
        (p + z²/2n) / (1 + z²/n), and its half width z √(p(1-p)/n + z²/4n²) / (1 + z²/n)
        (E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, 1927).
        It is right for few runs, too, and never leaves 0 to 1.
        """
        if not self.runs:
            return 0.0, 1.0
        share, runs, square = self.share, self.runs, _Z * _Z
        scale = 1 + square / runs
        middle = (share + square / (2 * runs)) / scale
        half = _Z * math.sqrt(share * (1 - share) / runs + square / (4 * runs * runs)) / scale
        # Rounding must not put a certain end beside its limit.
        low = 0.0 if self.passes == 0 else middle - half
        high = 1.0 if self.passes == runs else middle + half
        return low, high

    def any_of(self, k: int) -> float:
        """Return pass@k: the chance that at least one of k runs passes; ``k`` is at most the runs.

        With c passes in n runs, 1 - C(n-c, k) / C(n, k) is its unbiased estimate (M. Chen et al.,
        Evaluating Large Language Models Trained on Code, 2021, arXiv:2107.03374).
        """
        return 1 - math.comb(self.runs - self.passes, k) / math.comb(self.runs, k)

    def all_of(self, k: int) -> float:
        """Return pass^k: the chance that all of k runs pass; ``k`` is at most the runs.

        With c passes in n runs, C(c, k) / C(n, k) is its unbiased estimate (S. Yao et al., τ-bench:
        A Benchmark for Tool-Agent-User Interaction in Real-World Domains, 2024, arXiv:2406.12045).
        """
        return math.comb(self.passes, k) / math.comb(self.runs, k)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that is not below this share of all values (the nearest rank).

    ``values`` must not be empty.
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)), 1) - 1]


# The reuse of providers' caches: how much was possible, and how much there was


class CacheUse(msgspec.Struct, frozen=True):
    """The reuse of some model calls; tokens are the provider's count, in simkit's proportions."""

    calls: int = 0
    """The calls that begin as an earlier one, to providers with a rule."""
    expected: int = 0
    """The tokens that they could have reused at least."""
    read: int = 0
    """Those that the providers say they did."""
    lost_usd: float = 0.0
    """The price of what was not reused, as far as prices are known."""

    @staticmethod
    def total(uses: Iterable[CacheUse]) -> CacheUse:
        """Return the sum of several."""
        rows = [(use.calls, use.expected, use.read, use.lost_usd) for use in uses]
        return CacheUse(*map(sum, zip(*rows, strict=True))) if rows else CacheUse()


def cache_use(view: View, prices: PriceTable) -> CacheUse:
    """Return the reuse of a run."""
    return CacheUse.total(
        use for call_id in view.calls if (use := _use_of(view, call_id, prices)) is not None
    )


def _use_of(view: View, call_id: str, prices: PriceTable) -> CacheUse | None:
    call = view.calls[call_id]
    context, usage = call.context, call.usage
    old, prefix, rule = context.before, prefix_of(context), rule_of(context)
    if old is None or prefix is None or rule is None or usage is None or not usage.input_tokens:
        return None
    share = reused_tokens(old, context, prefix, rule) / (prefix.total or 1)
    expected, read = int(share * usage.input_tokens), usage.cached_tokens or 0
    if not expected:
        return None
    price = prices.price_of(model_of(context))
    saved = 0.0 if price is None or price.cached_input is None else price.input - price.cached_input
    return CacheUse(1, expected, read, max(expected - read, 0) * saved / 1_000_000)
