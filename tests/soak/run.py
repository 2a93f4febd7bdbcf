"""A piece of the soak: everything is disturbed that can be, and afterwards all must be right.

    python tests/soak/run.py --minutes 120 --seed 1 [--pause SECONDS] [--home DIR]
        [--only KIND ...]

A stack of its own with two observers, three agents and three dataflows (one in each mode, one of
them by ``run.changes``), writers through the observers and round them, and what the seed draws.
Each happening is a line of JSON, and the last line is the verdict; the status is 0 where nothing
was wrong, 1 where something was, 2 where the piece could not begin. ``--home`` is kept, with all
logs, for whoever has to find out why; without it a temporary folder is used, and kept where
something was wrong. The same minutes, seed and kinds draw the same happenings at the same moments;
what the processes do in between is the machine's affair.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent))

from soaking.clocks import ClocksMissing, Faketime
from soaking.happenings import Kind
from soaking.piece import Order, Piece, tell
from soaking.stand import Trouble
from soaking.writers import PAUSE

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus"


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return what the program is told."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=PAUSE, help="seconds; a writer's requests")
    parser.add_argument("--home", type=Path, help="a folder that is not there yet, or empty")
    parser.add_argument("--only", type=Kind, nargs="+", choices=list(Kind), metavar="KIND")
    parser.add_argument("--without-clocks", action="store_true", help="leave clocks alone")
    return parser.parse_args(arguments)


def main() -> int:
    """Live a piece and return the program's status."""
    asked = options()
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kinds = tuple(asked.only or Kind)
    if asked.home is not None and asked.home.exists() and any(asked.home.iterdir()):
        print(f"{asked.home} is not empty; name a folder that is, or none", file=sys.stderr)
        return 2
    home = (asked.home or Path(tempfile.mkdtemp(prefix="headgate-soak-"))).resolve()
    home.mkdir(parents=True, exist_ok=True)
    try:
        faketime = None if asked.without_clocks else Faketime(home)
    except ClocksMissing as error:
        print(error, file=sys.stderr)
        return 2
    if faketime is None:
        kinds = tuple(kind for kind in kinds if kind is not Kind.CLOCK)
    seconds = asked.minutes * 60
    tell(seed=asked.seed, minutes=asked.minutes, kinds=kinds, home=str(home))
    try:
        outcome = Piece(Order(seconds, asked.seed, kinds, faketime, home, RULES, asked.pause)).run()
    except Trouble as error:
        tell(verdict="it could not be", why=str(error), home=str(home))
        return 2
    except KeyboardInterrupt:
        tell(verdict="interrupted", home=str(home))
        return 130
    again = f"python tests/soak/run.py --minutes {asked.minutes:g} --seed {asked.seed}"
    if asked.pause != PAUSE:
        again += f" --pause {asked.pause:g}"
    if asked.only:
        again += f" --only {' '.join(asked.only)}"
    tell(
        verdict="wrong" if outcome.problems else "right",
        problems=outcome.problems,
        skipped=outcome.skipped,
        figures=outcome.figures,
        again=again,
    )
    if asked.home is None and not outcome.problems:
        shutil.rmtree(home)
    return 1 if outcome.problems else 0


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
