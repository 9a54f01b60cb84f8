"""The entry point of a new interpreter that works, and of an application process."""

import sys
from socket import socket

from simkit.session.workers.application import serve_copies
from simkit.session.workers.worker import receive_beginning, serve_on_standard_streams

if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve_copies(socket(fileno=int(sys.argv.pop())))
    else:
        receive_beginning()
    serve_on_standard_streams()
