"""What a run that goes on in a new process starts there."""

from simkit.session.execution.subprocess_worker import serve

if __name__ == "__main__":
    serve()
