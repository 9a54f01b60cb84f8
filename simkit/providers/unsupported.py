"""Model requests in interfaces that simkit does not read: name the provider and the interface."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from simkit.providers.http import HttpRequest, path_of

_MODEL_CALLS: Final = {
    "Amazon Bedrock": r"/model/[^/]+/(?:converse(?:-stream)?|invoke(?:-with-response-stream)?)",
    "Cohere": r"/v[12]/chat",
    "Ollama's own interface": r"/api/(?:chat|generate)",
    "OpenAI's completions": r"/v1/completions",
    "OpenAI's assistants": r"/threads(?:/[^/]+)?/runs",
    "OpenAI's compaction": r"/responses/compact",
    "Google's interactions": r"/v1(?:alpha|beta)?\d*/interactions",
    "Vertex AI's own interface": r":(?:rawPredict|streamRawPredict|predict)",
    "Mistral's own interface": r"/v1/(?:fim|agents)/completions|/v1/conversations(?:/[^/]+)?",
}
"""Interfaces to models, by the end of their paths."""
_CALLS: Final = {name: re.compile(rf"(?:{pattern})$") for name, pattern in _MODEL_CALLS.items()}
_ANYWHERE: Final = ("Amazon Bedrock", "Ollama's own interface", "OpenAI's completions")
"""Interfaces whose servers run under any host name."""
_HOSTS: Final = re.compile(
    r"(?:^|\.)(?:api\.(?:openai|anthropic|cohere|groq|fireworks|deepseek|mistral|perplexity|together"
    r"|cerebras|moonshot|x|replicate|sambanova)\.(?:com|ai|xyz|cn)|openrouter\.ai"
    r"|generativelanguage\.googleapis\.com|[a-z0-9-]*aiplatform\.googleapis\.com"
    r"|bedrock-runtime[a-z0-9.-]*\.amazonaws\.com|openai\.azure\.com|services\.ai\.azure\.com"
    r"|integrate\.api\.nvidia\.com|router\.huggingface\.co|dashscope[a-z-]*\.aliyuncs\.com)$"
)
_OTHER: Final = re.compile(
    r"embed|rerank|/files|/uploads|/images|/audio|/moderations|/batches|/vector_stores|/fine_tuning"
    r"|/models(?:/[^/:]+)?$|tokens?$|tokenize|/evals|/containers|/organization|/assistants"
    r"|/threads(?:/[^/]+(?:/messages)?)?$|/conversations|/cachedContents|/realtime|/videos|/realtime"
    r"|/skills|/oauth|/token$|/corpora|/tunedModels(?:/[^/:]+)?$|operations"
)
"""Parts of the paths of a provider's other services, which are no model calls."""


def unspoken(request: HttpRequest) -> str:
    """Return the provider's interface that a request uses, if it may be a model call.

    Empty for a request to another host, and for a request that is known to be no model call.
    """
    if request.method != "POST":
        return ""
    path, host = path_of(request.url), urlsplit(request.url).hostname or ""
    is_providers = _HOSTS.search(host) is not None
    for name, pattern in _CALLS.items():
        if (is_providers or name in _ANYWHERE) and pattern.search(path):
            return name
    return f"an interface of {host}" if is_providers and not _OTHER.search(path) else ""
