"""Looks for contradictions: ``python tests/worlds/run.py engine --seed 1 --seconds 600``.

``--life NUMBER`` lives one life again that was found, and ends with its traceback.
"""

from __future__ import annotations

import argparse
import sys

from worlds import WORLDS, Found, search


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("world", choices=sorted(WORLDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the processor")
    parser.add_argument("--life", type=int, help="live this one life only")
    options = parser.parse_args()
    if options.life is not None:
        WORLDS[options.world](options.life)
        print("nothing found")
        return 0
    found = search(options.world, options.seed, seconds=options.seconds)
    if isinstance(found, Found):
        print(f"found after {found.seconds:.1f} s, in life {found.life}: {found.words}")
        return 1
    print(f"nothing found in {found} lives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
