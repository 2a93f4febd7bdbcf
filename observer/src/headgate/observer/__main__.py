"""``python -m headgate.observer``: an observer without the ``headgate`` command."""

from __future__ import annotations

import argparse
import ctypes
import signal
import sys
from pathlib import Path

from headgate.observer.lifecycle.foreground import run_in_foreground

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def _main() -> int:
    parser = argparse.ArgumentParser(prog="python -m headgate.observer", description=__doc__)
    parser.add_argument("--config", type=Path, default=Path("observer.toml"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument(
        "--with-parent", action="store_true", help="end with the starting process (Linux)"
    )
    options = parser.parse_args()
    if options.with_parent and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
    return run_in_foreground(options.config, as_json=options.json, verbose=options.verbose)


if __name__ == "__main__":
    sys.exit(_main())
