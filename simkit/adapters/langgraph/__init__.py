"""LangGraph: compiled graphs, their builders, functions that make one, and code that calls one."""

from simkit.adapters.langgraph.pilot import instrument as instrument
from simkit.adapters.langgraph.pilot import pilot as pilot
