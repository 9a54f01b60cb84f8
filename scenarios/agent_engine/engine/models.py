"""The model that all agents ask."""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI


def chat_model() -> BaseChatModel:
    """Returns the model; what it needs to reach the provider is in the environment."""
    return ChatOpenAI(model="gpt-5-mini")
