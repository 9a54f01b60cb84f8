"""Provider clients: send requests through the providers' own libraries, and return the exchanges.

A client is imported on first use, takes keys and addresses from its own environment variables, and
retries as usual: the last answer counts.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import msgspec

from simkit.capture.http.interception import intercepting
from simkit.capture.http.request_router import ChunkRecorder, Decision, Forward, passing_through
from simkit.core.errors import ProviderUnreached
from simkit.providers.http import HttpAnswer, HttpRequest
from simkit.providers.protocols import PROTOCOLS, key_names, protocol_of


class ProviderExchange(msgspec.Struct, frozen=True):
    """One exchange with a provider."""

    request: HttpRequest
    """The request as the client sent it."""
    answer: HttpAnswer


class Client(msgspec.Struct, frozen=True):
    """How a provider's own client is used."""

    package: str
    distribution: str
    """The distribution to install."""
    make: Callable[[Any], Any]
    """Makes a client, given its module."""
    send: Callable[[Any, HttpRequest, Any], object]
    """Sends a request's body, bytes or a value, through a client."""


class ProviderClients:
    """The clients of one run, each made on first use."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}

    def prepare(self, request: HttpRequest) -> None:
        """Import and make the client of a request, so that its call takes only its own time.

        If that fails, `send` reports it.
        """
        protocol = protocol_of(request)
        assert protocol is not None
        with suppress(Exception):
            contextvars.Context().run(self._client, protocol.name)

    def send(self, request: HttpRequest) -> ProviderExchange:
        """Send a request; raise ProviderUnreached if there is no client.

        It is sent outside the run: with the real clock, and through no other router.
        """
        return contextvars.Context().run(self._send, request)

    def _send(self, request: HttpRequest) -> ProviderExchange:
        protocol = protocol_of(request)
        assert protocol is not None
        client = _CLIENTS[protocol.name]
        observer = _Hearing()
        problem: Exception | None = None
        with intercepting(), passing_through(observer):
            try:
                client_ = self._client(protocol.name)
                client.send(client_, request, msgspec.json.decode(request.body))
            except ImportError as missing:
                if not (missing.name or "").startswith(client.package.partition(".")[0]):
                    raise
                raise ProviderUnreached(
                    f"models of {client.distribution} are asked through its own client, which is "
                    f"not installed: pip install {client.distribution}"
                ) from None
            except Exception as raised:
                # The provider's answer says more than the client's exception.
                problem = raised
        if observer.exchange is None:
            why = str(problem).strip().partition("\n")[0] if problem is not None else ""
            raise ProviderUnreached(
                f"the client of {client.distribution} sends nothing: {why}\n"
                f"Set its key and address in the environment: {key_names(protocol)}."
            ) from problem
        return observer.exchange

    def _client(self, protocol: str) -> Any:
        if protocol not in self._clients:
            client = _CLIENTS[protocol]
            self._clients[protocol] = client.make(import_module(client.package))
        return self._clients[protocol]

    def close(self) -> None:
        """Close the connections."""
        while self._clients:
            _, client = self._clients.popitem()
            client.close()


class _Hearing:
    """A router that forwards everything, and keeps the model call."""

    def __init__(self) -> None:
        self.exchange: ProviderExchange | None = None

    def take(self, request: HttpRequest) -> Decision:
        """Forward a request."""
        if protocol_of(request) is None:
            return Forward(None)

        def ended(answer: HttpAnswer) -> None:
            self.exchange = ProviderExchange(request, answer)

        return Forward(ChunkRecorder(ended))


def _post(path: str) -> Callable[[Any, HttpRequest, Any], object]:
    """Return a function that sends a body as it is, to a path below the client's address."""
    return lambda client, request, body: client.post(path, body=body, cast_to=object)


def _generate(client: Any, request: HttpRequest, body: Any) -> object:
    """Send a body to a Gemini model: the client merges it into the body that it builds."""
    model = PROTOCOLS["gemini"].parse_request(request).model
    options = {
        "model": model,
        "contents": body["contents"],
        "config": {"http_options": {"extra_body": body, "api_version": "v1beta"}},
    }
    if "streamGenerateContent" in request.url:
        return [None for _ in client.models.generate_content_stream(**options)]
    return client.models.generate_content(**options)


_CLIENTS: Final[Mapping[str, Client]] = {
    "openai-chat": Client(
        "openai", "openai", lambda module: module.OpenAI(), _post("/chat/completions")
    ),
    "openai-responses": Client(
        "openai", "openai", lambda module: module.OpenAI(), _post("/responses")
    ),
    "anthropic": Client(
        "anthropic", "anthropic", lambda module: module.Anthropic(), _post("/v1/messages")
    ),
    "gemini": Client("google.genai", "google-genai", lambda module: module.Client(), _generate),
}


def client_modules(protocols: Iterable[str]) -> list[str]:
    """Return the modules of the clients that ask models in these protocols."""
    return [*dict.fromkeys(_CLIENTS[protocol].package for protocol in protocols)]
