"""LangGraph: compiled graphs, their builders, functions that make one, and code that calls one."""

from simkit.adapters.langgraph.driver import driver as driver
from simkit.adapters.langgraph.driver import instrumentation as instrumentation
