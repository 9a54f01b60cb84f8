"""What research searches with."""

from __future__ import annotations

from langchain_core.tools import tool


@tool
def pdf_retrieval(q: str) -> list[str]:
    """Searches the papers that were uploaded."""
    raise ConnectionError("the vector store cannot be reached")


@tool
def web_search(q: str) -> list[str]:
    """Searches the web."""
    raise ConnectionError("the search engine cannot be reached")


TOOLS = [pdf_retrieval, web_search]
