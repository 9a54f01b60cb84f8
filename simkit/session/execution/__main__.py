"""The entry point of a new process that continues a run."""

from simkit.session.execution.subprocess_worker import serve

if __name__ == "__main__":
    serve()
