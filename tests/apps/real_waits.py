"""Waits for a process that takes as long as the user says: piece by piece, at most a minute."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from os.path import exists


def child(seconds, and_then=""):
    code = f"import threading; threading.Event().wait({seconds})\n{and_then}"
    return [sys.executable, "-c", code]


def looked_for(is_over):
    """Look whether a process is over, as an application's own loop does."""
    until = time.monotonic() + 60
    while not is_over():
        assert time.monotonic() < until
        time.sleep(0.01)


def started(seconds):
    process = multiprocessing.get_context("fork").Process(target=really, args=(seconds,))
    process.start()
    return process


def really(seconds):
    subprocess.run(child(seconds), check=True)


def communicated(seconds):
    subprocess.Popen(child(seconds)).communicate(timeout=60)


def alive(seconds):
    process = started(seconds)
    looked_for(lambda: not process.is_alive())


def polled(seconds):
    process = subprocess.Popen(child(seconds))
    looked_for(lambda: process.poll() is not None)


def file_wait(is_there):
    """Return a wait for a file that a process writes at its end."""

    def wait(seconds):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "written")
            process = subprocess.Popen(child(seconds, f"open({file!r}, 'w').close()"))
            looked_for(lambda: is_there(file))
            process.wait()

    return wait


async def looked_for_in_loop(seconds):
    process = await asyncio.create_subprocess_exec(*child(seconds))
    if not seconds:  # It ends before asyncio knows it.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    while process.returncode is None:
        await asyncio.sleep(0.01)


WAYS = {
    "exists": file_wait(exists),
    "returncode": lambda seconds: asyncio.run(looked_for_in_loop(seconds)),
    "wait": lambda seconds: subprocess.Popen(child(seconds)).wait(60),
    "communicate": communicated,
    "run": lambda seconds: subprocess.run(child(seconds), timeout=60, check=True),
    "join": lambda seconds: started(seconds).join(60),
    "poll": polled,
    "is_alive": alive,
}


def run(text):
    way, seconds = text.split()
    before = time.monotonic()
    WAYS[way](float(seconds))
    time.sleep(8)
    return f"{time.monotonic() - before:.3f}"


def endless(text):
    """Give a process up that never ends: in virtual time."""
    process = subprocess.Popen(child(600))
    until = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.5)
    process.kill()
    return f"{process.wait()}"


left_behind = []


def left(text):
    """Look at a process once, and leave it."""
    left_behind.append(subprocess.Popen(child(600)))
    return "runs" if left_behind[0].poll() is None else "over"


def slept(text):
    before = time.monotonic()
    time.sleep(0.5)
    result = f"{time.monotonic() - before:.3f}"
    left_behind[0].kill()
    left_behind[0].wait()
    return result
