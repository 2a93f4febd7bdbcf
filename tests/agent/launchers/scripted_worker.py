"""Programs that speak the protocol of workers and start no Spark.

They speak it in JSON as it is written down, not by headgate's own types: these take half a second
of a processor to import, and there are dozens of workers.
"""

from __future__ import annotations

import sys
from pathlib import Path

_HEAD = f"""#!{sys.executable} -IS
import json, os, sys, time
from types import SimpleNamespace
out = os.fdopen(int(sys.argv[sys.argv.index("--reply-fd") + 1]), "wb")
def say(type, **fields):
    out.write(json.dumps({{"type": type, **fields}}).encode() + b"\\n")
    out.flush()
def ready(seconds=0.1):
    say("ready", pid=os.getpid(), spark="4", seconds=seconds)
def started(request):
    say("started", run=request.run, attempt=request.attempt, space=request.space)
def ended(request, ending="committed", **more):
    place = {{"run": request.run, "attempt": request.attempt, "space": request.space}}
    say("ended", **place, ending=ending, seconds=0.1, **more)
def heard(line):
    return SimpleNamespace(**json.loads(line))
"""


def write_worker(path: Path, program: str) -> str:
    """Make a worker of a program that goes on from ``_HEAD``; return the command that runs it."""
    path.write_text(_HEAD + program)
    path.chmod(0o755)
    return str(path)
