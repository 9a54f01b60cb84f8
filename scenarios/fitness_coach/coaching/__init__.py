"""A router and three coaches on LangGraph."""
