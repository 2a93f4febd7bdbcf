"""``python -m headgate.spark --reply-fd N``: a worker, started by an agent."""

import argparse
import os

from headgate.settings import java_home_for_spark
from headgate.spark.worker.worker import serve

parser = argparse.ArgumentParser(
    prog="python -m headgate.spark",
    description="Runs PySpark steps for an agent, which starts it; not meant to be run by hand.",
)
parser.add_argument("--reply-fd", type=int, required=True, help="file descriptor for replies")
home = java_home_for_spark(os.environ)
if home is not None:
    os.environ["JAVA_HOME"] = home
serve(parser.parse_args().reply_fd)
