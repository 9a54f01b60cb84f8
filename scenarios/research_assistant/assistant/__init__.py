"""A research assistant on LangGraph: it asks back, or researches a question and answers it."""
