"""``python -m headgate.agent.launchers DIRECTORY``: an attendant, started by an agent."""

import argparse
from pathlib import Path

from headgate.agent.launchers.attendant import attend

parser = argparse.ArgumentParser(
    prog="python -m headgate.agent.launchers",
    description="Attends to one job for an agent, which starts it; not meant to be run by hand.",
)
parser.add_argument("directory", type=Path, help="the job's directory")
parser.add_argument("--place", type=int, required=True, help="descriptor of the attendant's lock")
arguments = parser.parse_args()
attend(arguments.directory, arguments.place)
