"""Which provider the router and the coaches ask."""

from __future__ import annotations

import os

from langchain_core.language_models import BaseChatModel


def chat_model() -> BaseChatModel:
    """Returns the model of `COACHING_API`; `COACHING_WAY` says whether it streams."""
    api = os.environ.get("COACHING_API", "openai_chat")
    streamed = os.environ.get("COACHING_WAY") == "streamed"
    if api == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(
            model_name="claude-haiku-4-5", max_tokens_to_sample=1024, streaming=streamed,
            timeout=None, stop=None,
        )  # fmt: skip
    from langchain_openai import ChatOpenAI

    responses = api == "openai_responses"
    return ChatOpenAI(model="gpt-5-mini", streaming=streamed, use_responses_api=responses)
