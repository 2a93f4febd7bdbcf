"""Step D's chart: the city seen from above, green where the air is good, red where it is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aqhi.grid import SIDE_UNITS

CITY_COLOURS = "RdYlGn_r"
"""Green for low, yellow for medium, red for high concentration, as people know such maps."""


def draw_city(points: NDArray[np.float64], path: Path, title: str) -> None:
    """Write the chart of the points between detectors; the suffix decides the format (.png, .svg).

    Args:
        points: concentration 0 to 100, shape (side - 1, side - 1), rows from south to north.
        path: where to write; folders are made.
        title: shown above the map.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = Figure(figsize=(5, 4.2), dpi=80)
    axes = figure.subplots()
    picture = axes.imshow(
        points,
        origin="lower",
        extent=(0, SIDE_UNITS, 0, SIDE_UNITS),
        cmap=CITY_COLOURS,
        vmin=0,
        vmax=100,
    )
    axes.set(title=title, xlabel="east (units)", ylabel="north (units)")
    figure.colorbar(picture, label="concentration (0 to 100)")
    # Written beside and moved, so that whoever looks never sees half a picture.
    partial = path.with_name(f".{path.name}.partial{path.suffix}")
    figure.savefig(partial)
    partial.replace(path)
