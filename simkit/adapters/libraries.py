"""Libraries of pipelines: installed versions, and requirements of adapters.

Versions belong in reports, so that runs with different libraries can be distinguished; never in a
trace, which is equal if the pipeline does the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import metadata
from typing import Final

from packaging.requirements import InvalidRequirement, Requirement

PROVIDERS: Final = (
    "openai", "anthropic", "google-genai", "litellm", "langchain-openai", "langchain-anthropic",
    "langchain-google-genai", "langchain-google-vertexai", "langchain-aws", "mistralai", "groq",
    "cohere", "together", "ollama", "boto3", "google-generativeai", "vertexai", "xai-sdk",
)  # fmt: skip
FRAMEWORKS: Final = (
    "langgraph", "langchain", "openai-agents", "pydantic-ai", "pydantic-ai-slim", "google-adk",
    "crewai", "autogen-agentchat", "agent-framework", "agent-framework-core", "semantic-kernel",
    "llama-index-core", "smolagents", "strands-agents", "haystack-ai", "dspy", "ag2",
    "claude-agent-sdk",
)  # fmt: skip

GROUP: Final = "simkit.adapters"
"""The group of entry points of adapters, and the package of simkit's own."""


def installed(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the installed ones of these distributions, with their versions."""
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            yield name, metadata.version(name)


def libraries() -> dict[str, str]:
    """Return the installed frameworks and provider clients, with their versions."""
    return dict(installed((*FRAMEWORKS, *PROVIDERS)))


def extra_for(module: str) -> str:
    """Return the extra that installs a missing module; empty for none."""
    for entry in metadata.entry_points(group=GROUP):
        # Without any package of Google's, `google` is missing, and not `google.adk`.
        is_named = f"{entry.name}.".startswith(f"{module}.") or module.startswith(f"{entry.name}.")
        if is_named and entry.dist is not None:
            extra = adapter_of(entry)
            if extra in (entry.dist.metadata.get_all("Provides-Extra") or ()):
                return extra
    return ""


def adapter_of(entry: metadata.EntryPoint) -> str:
    """Return the name of an adapter for users: that of its package."""
    return entry.value.partition(":")[0].rpartition(".")[2].replace("_", "-")


@lru_cache
def unfit(entry: metadata.EntryPoint) -> str:
    """Return what is wrong with the version of an adapter's framework; empty if nothing is."""
    if entry.dist is None or not entry.value.startswith(GROUP):
        return ""
    extra = adapter_of(entry)
    for line in entry.dist.requires or ():
        with contextlib.suppress(InvalidRequirement, metadata.PackageNotFoundError):
            needed = Requirement(line)
            if needed.marker is None or not needed.marker.evaluate({"extra": extra}):
                continue
            if needed.marker.evaluate({"extra": ""}):
                continue
            version = metadata.version(needed.name)
            if not needed.specifier.contains(version, prereleases=True):
                return (
                    f"{needed.name} {version} is installed, and simkit supports "
                    f"{needed.name}{needed.specifier}: `{install(extra)}`"
                )
    return ""


def install(extra: str) -> str:
    """Return the command that installs an adapter's requirements."""
    return f"pip install --upgrade 'agent-simkit[{extra}]'"
