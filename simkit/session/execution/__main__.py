"""The entry point of a new process that continues a run, and of the server that copies itself."""

import sys

from simkit.session.execution.subprocess_worker import serve

if __name__ == "__main__":
    if len(sys.argv) > 1:
        from simkit.session.execution.fork_server import serve_forks

        serve_forks(int(sys.argv.pop()))
    serve()
