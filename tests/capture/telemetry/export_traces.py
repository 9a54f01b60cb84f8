"""Make the exports anew: run applications with official instrumentations, and keep what they send.

``python -m tests.capture.telemetry.export_traces FOLDER EXPORTER`` needs the packages that
`PACKAGES` names, in an environment of their own (`nox -s exports`). Models are scripted: the
applications run as scenarios of simkit, so that ids and times of the exports stay the same.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Final

FOLDER: Final = Path(__file__).parent
APPS: Final = (
    "openai-agents", "langchain", "langgraph", "langgraph-supervisor", "langchain-openai",
    "opentelemetry-exporter-otlp-json-file", "opentelemetry-exporter-otlp-proto-common",
)  # fmt: skip
PACKAGES: Final = {
    "most": (
        *APPS, "langsmith", "langfuse", "logfire", "pydantic-ai-slim[openai]",
        "openinference-instrumentation-openai", "openinference-instrumentation-langchain",
        "openinference-instrumentation-openai-agents",
        "openinference-instrumentation-pydantic-ai", "opentelemetry-instrumentation-langchain",
        "opentelemetry-util-genai<1", "opentelemetry-instrumentation-openai-v2",
        "opentelemetry-instrumentation-openai-agents-v2",
    ),
    "genai": (
        *APPS, "opentelemetry-instrumentation-genai-openai",
        "opentelemetry-instrumentation-genai-openai-agents",
        "opentelemetry-instrumentation-genai-langchain",
    ),
}  # fmt: skip
"""Packages that are installed one after the other: those of OpenTelemetry exclude each other."""
AGENTS: Final = "agents.yaml"
CHAT: Final = "chat.yaml"
GRAPHS: Final = "graphs.yaml"
PYDANTIC: Final = "pydantic.yaml"


class Lines(io.StringIO):
    """A stream of which each line is kept."""


def provider(stream: Any, *before: Any) -> Any:
    """Return a provider of tracers whose spans go to a stream as OTLP JSON, processed before."""
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    tracers = TracerProvider(resource=Resource.create({"service.name": "desk"}))
    for processor in (*before, SimpleSpanProcessor(FileSpanExporter(stream=stream))):
        tracers.add_span_processor(processor)
    return tracers


def otel_chat(stream: Any, *, mode: str, latest: bool) -> None:
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = mode
    if latest:
        os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    from opentelemetry.exporter.otlp.json.file._log_exporter import FileLogExporter
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

    logs = LoggerProvider()
    logs.add_log_record_processor(SimpleLogRecordProcessor(FileLogExporter(stream=stream)))
    OpenAIInstrumentor().instrument(tracer_provider=provider(stream), logger_provider=logs)


def otel_agents(stream: Any) -> None:
    os.environ["OTEL_INSTRUMENTATION_OPENAI_AGENTS_CAPTURE_CONTENT"] = "span_only"
    from agents import set_trace_processors
    from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    set_trace_processors([])
    OpenAIAgentsInstrumentor().instrument(
        tracer_provider=provider(stream), capture_message_content="span_only"
    )


def opentelemetry(stream: Any, *instrumentors: str) -> None:
    """Instrument with classes of packages of OpenTelemetry."""
    import importlib

    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "span_only"
    tracers = provider(stream)
    for place in instrumentors:
        module, name = place.split(":")
        instrumentation = importlib.import_module(f"opentelemetry.instrumentation.{module}")
        options = {"disable_openai_trace_export": True} if "Agents" in name else {}
        getattr(instrumentation, name)().instrument(tracer_provider=tracers, **options)


def pydantic_ai(stream: Any, *before: Any) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider(stream, *before)))


def openinference_pydantic_ai(stream: Any) -> None:
    from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

    pydantic_ai(stream, OpenInferenceSpanProcessor())


def logfire(stream: Any) -> None:
    import logfire as sdk
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    processor = SimpleSpanProcessor(FileSpanExporter(stream=stream))
    sdk.configure(send_to_logfire=False, console=False, additional_span_processors=[processor])
    sdk.instrument_pydantic_ai()


def openinference(stream: Any, *, of: str) -> None:
    import importlib

    module = importlib.import_module(f"openinference.instrumentation.{of}")
    name = {"openai": "OpenAI", "langchain": "LangChain", "openai_agents": "OpenAIAgents"}[of]
    if of == "openai_agents":
        from agents import set_trace_processors

        set_trace_processors([])
    getattr(module, f"{name}Instrumentor")().instrument(tracer_provider=provider(stream))


def _for_all(handler: Any) -> None:
    """Let LangChain tell a handler of every run, as its variables of the environment do."""
    from contextvars import ContextVar

    from langchain_core.tracers.context import register_configure_hook

    register_configure_hook(ContextVar("handler", default=handler), True)


def langfuse(stream: Any, *, of: str) -> None:
    from langfuse import Langfuse
    from opentelemetry.exporter.otlp.json.file import FileSpanExporter

    client = Langfuse(
        public_key="pk-lf-1", secret_key="sk-lf-1", base_url="http://127.0.0.1:9",
        span_exporter=FileSpanExporter(stream=stream), flush_at=1,
    )  # fmt: skip
    if of == "langchain":
        from langfuse.langchain import CallbackHandler

        _for_all(CallbackHandler())
    else:
        import langfuse.openai  # noqa: F401
    stream.flush_spans = client.flush


def langsmith(stream: Any) -> None:
    from langchain_core.tracers.langchain import LangChainTracer
    from langsmith import Client

    class Session:
        """Keeps what would be sent."""

        headers: ClassVar[dict[str, str]] = {}

        def request(self, method: str, url: str, **more: Any) -> Any:
            from requests import Response

            body = more.get("data") or b"{}"
            if "/runs" in url and body:
                kind = {"POST": "post", "PATCH": "patch"}[method]
                run = json.loads(body)
                # The whole graph, drawn anew in each run.
                run.pop("serialized", None)
                run.get("extra", {}).pop("runtime", None)
                if kind == "patch":
                    run.setdefault("id", url.rpartition("/")[2])
                stream.write(json.dumps({kind: [run]}) + "\n")
            answer = Response()
            answer.status_code = 202
            answer._content = b"{}"
            return answer

        def mount(self, *args: Any) -> None: ...
        def close(self) -> None: ...

    client = Client("http://127.0.0.1:9", api_key="ls", session=Session(), auto_batch_tracing=False,
                    info={})  # type: ignore[arg-type]  # fmt: skip
    _for_all(LangChainTracer(client=client))


def agents_own(stream: Any, *, chats: bool) -> None:
    from agents import set_default_openai_api, set_trace_processors
    from agents.tracing.processor_interface import TracingProcessor

    class Keeping(TracingProcessor):
        """Writes what `BackendSpanExporter` sends: `{"data": [span.export()]}`."""

        def _keep(self, item: Any) -> None:
            stream.write(json.dumps({"data": [item.export()]}) + "\n")

        def on_trace_start(self, trace: Any) -> None:
            self._keep(trace)

        def on_span_end(self, span: Any) -> None:
            self._keep(span)

        def on_trace_end(self, trace: Any) -> None: ...
        def on_span_start(self, span: Any) -> None: ...
        def shutdown(self) -> None: ...
        def force_flush(self) -> None: ...

    set_trace_processors([Keeping()])
    if chats:
        set_default_openai_api("chat_completions")


GENAI: Final = (
    "genai.openai:OpenAIInstrumentor", "genai.openai_agents:OpenAIAgentsInstrumentor",
    "genai.langchain:LangChainInstrumentor",
)  # fmt: skip
EXPORTERS: Final[dict[str, tuple[Callable[[Any], None], str]]] = {
    "otel-openai": (lambda s: otel_chat(s, mode="span_only", latest=True), CHAT),
    "otel-openai-events": (lambda s: otel_chat(s, mode="event_only", latest=True), CHAT),
    "otel-openai-1.30": (lambda s: otel_chat(s, mode="true", latest=False), CHAT),
    "otel-openai-bare": (lambda s: otel_chat(s, mode="no_content", latest=True), CHAT),
    "openinference-openai": (lambda s: openinference(s, of="openai"), CHAT),
    "langfuse-openai": (lambda s: langfuse(s, of="openai"), CHAT),
    "otel-agents": (otel_agents, AGENTS),
    "openinference-agents": (lambda s: openinference(s, of="openai_agents"), AGENTS),
    "agents": (lambda s: agents_own(s, chats=True), AGENTS),
    "agents-responses": (lambda s: agents_own(s, chats=False), AGENTS),
    "openinference-langchain": (lambda s: openinference(s, of="langchain"), GRAPHS),
    "langfuse-langchain": (lambda s: langfuse(s, of="langchain"), GRAPHS),
    "langsmith": (langsmith, GRAPHS),
    "traceloop-langchain": (lambda s: opentelemetry(s, "langchain:LangchainInstrumentor"), GRAPHS),
    "genai-openai": (lambda s: opentelemetry(s, *GENAI[:1]), CHAT),
    "genai-agents": (lambda s: opentelemetry(s, *GENAI[:2]), AGENTS),
    "genai-langchain": (lambda s: opentelemetry(s, *GENAI[2:]), GRAPHS),
    "pydantic-ai": (pydantic_ai, PYDANTIC),
    "openinference-pydantic-ai": (openinference_pydantic_ai, PYDANTIC),
    "logfire": (logfire, PYDANTIC),
}
"""Exporters: how each is set up, and the file of the scenarios that it watches."""


def group_of(exporter: str) -> str:
    """Return which packages an exporter needs."""
    return "genai" if exporter.startswith("genai-") else "most"


def export(exporter: str, folder: Path) -> int:
    """Run the scenarios of an exporter, each in a process; return how many failed."""
    from simkit.spec.scenario.items import items_in

    failed = 0
    for item in items_in(str(FOLDER / EXPORTERS[exporter][1])):
        target = folder / f"{exporter}--{item.name.replace(' ', '-')}.jsonl.gz"
        done = subprocess.run(
            [sys.executable, __file__, exporter, item.name, str(target)], check=False, cwd=FOLDER
        )
        print(target.name, done.returncode, target.stat().st_size if target.exists() else 0)
        failed += done.returncode != 0
    return failed


def export_one(exporter: str, name: str, target: Path) -> None:
    from simkit.session.simulate import simulate
    from simkit.spec.scenario.files import Library
    from simkit.spec.scenario.items import items_in

    sys.path.insert(0, str(FOLDER))
    setup, file = EXPORTERS[exporter]
    stream = Lines()
    setup(stream)
    library = Library()
    (item,) = [item for item in items_in(file, library.cache) if item.name == name]
    outcome = simulate(library.prepared(item))
    getattr(stream, "flush_spans", lambda: None)()
    for finding in outcome.judgement.findings:
        print(name, finding.what, finding.differences, file=sys.stderr)
    content = without_machine(stream.getvalue()).encode()
    target.write_bytes(gzip.compress(content, mtime=0))


def without_machine(text: str) -> str:
    """Leave out what is said of the machine: paths, and stack traces."""
    for folder, name in ((FOLDER, "/app"), (sys.prefix, "/venv"), (sys.base_prefix, "/usr")):
        text = text.replace(str(folder), name)
    lines = [json.dumps(_without_stacks(json.loads(line))) for line in text.splitlines()]
    return "\n".join([*lines, ""])


def _without_stacks(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("key") == "exception.stacktrace":
            return {**value, "value": {"stringValue": ""}}
        return {key: _without_stacks(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_stacks(item) for item in value]
    if isinstance(value, str) and "Traceback (most recent call last)" in value:
        return value.partition("Traceback (most recent call last)")[0]
    return value


if __name__ == "__main__":
    if len(sys.argv) == 4:
        export_one(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        place = Path(sys.argv[1]).resolve()
        place.mkdir(parents=True, exist_ok=True)
        names = [name for name in EXPORTERS if sys.argv[2] in (name, group_of(name))]
        sys.exit(sum(export(name, place) for name in names) and 1)
