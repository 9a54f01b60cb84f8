"""The entry point of a new interpreter that works, and of an application process."""

import sys

from simkit.session.workers.worker import serve_on_standard_streams

if __name__ == "__main__":
    if len(sys.argv) > 1:
        from functools import partial
        from socket import socket

        from simkit.session.workers.application import import_modules, serve_copies

        number, *modules = sys.argv[1:]
        del sys.argv[1:]
        serve_copies(socket(fileno=int(number)), partial(import_modules, modules))
        serve_on_standard_streams()
    else:
        from simkit.session.workers.worker import receive_beginning

        receive_beginning()
        serve_on_standard_streams()
