"""``python -m headgate.agent.launchers DIRECTORY``: the runner of a job, started by an agent."""

import argparse
from pathlib import Path

from headgate.agent.launchers.job_runner import run_job

parser = argparse.ArgumentParser(
    prog="python -m headgate.agent.launchers",
    description="Runs one job for an agent, which starts it; not meant to be run by hand.",
)
parser.add_argument("directory", type=Path, help="the job's directory")
parser.add_argument("--lock", type=int, required=True, help="descriptor of the lock on the job")
arguments = parser.parse_args()
run_job(arguments.directory, arguments.lock)
