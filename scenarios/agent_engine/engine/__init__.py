"""An agent engine on LangGraph: nodes that pass on their output, tool calls and memory."""
