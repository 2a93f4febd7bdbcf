"""Step 2b's chart: the forest seen from above, the warmer the redder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

_RANGE = (0.0, 60.0)
"""Degrees at the ends of the colours: a cold night, a fire."""


def draw_map(temperatures: pa.Table, path: Path) -> None:
    """Write the chart; the suffix decides the format (.png, .svg).

    Args:
        temperatures: row (``r000c000`` and so on), temperature (degrees).
        path: where to write; folders are made.
    """
    rows = [(int(key[1:4]), int(key[5:8])) for key in temperatures["row"].to_pylist()]
    y, x = np.array(rows).T
    square = np.full((y.max() + 1, x.max() + 1), np.nan)
    square[y, x] = temperatures["temperature"]
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5, 4.2), dpi=80)
    axes = figure.subplots()
    picture = axes.imshow(square, origin="lower", cmap="inferno", vmin=_RANGE[0], vmax=_RANGE[1])
    axes.set(xlabel="sensors, west to east", ylabel="south to north")
    figure.colorbar(picture, label="degrees Celsius")
    # Written beside and moved, so that whoever looks never sees half a picture.
    partial = path.with_name(f".{path.name}.partial{path.suffix}")
    figure.savefig(partial)
    partial.replace(path)
