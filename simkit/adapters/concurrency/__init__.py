"""Threads, executors and event loops of user code. Nothing else here knows CPython's frames."""
