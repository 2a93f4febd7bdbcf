"""Containers of all waves in the form that learned triggers are trained and evaluated on."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from headgate.learning import ContainerHistory
from linear_road.all_waves import PerCar, Waves

CONTAINERS = (
    "reports",
    "positions",
    "minute-speeds",
    "minute-cars",
    "standing",
    "speeds",
    "cars",
    "accidents",
    "congestion",
    "tolls",
    "areas",
)
"""Those that steps with bounds read or write, by their names in ``linear_road.yaml``."""


def history(waves: Waves, container: str, horizon: int) -> ContainerHistory:
    """Return a container's values, elements and updates, wave by wave.

    Elements of containers with several columns are cells. Where rows are cars, a column of the
    values is used again for another car ``horizon`` waves after the first one has left: no pair of
    waves up to that age has both in it, and impact and error of all such pairs are the same.

    Args:
        waves: of the whole dataflow.
        container: one of ``CONTAINERS``.
        horizon: H, in waves: the oldest version that is compared.

    Raises:
        ValueError: there is no history of the container.
    """
    times = (60 * waves.minutes).astype(np.float64)
    if container in {"reports", "positions"}:
        rows: list[PerCar] = getattr(waves, container)
        values = in_slots(rows, horizon)
        elements = np.array([len(row.cars) for row in rows])
        if container == "reports":
            return ContainerHistory(values, elements, waves.reported, times)
        gone = [len(np.setdiff1d(a.cars, b.cars)) for a, b in pairwise(rows)]
        return ContainerHistory(values, elements, elements + np.array([0, *gone]), times)
    if container == "standing":
        cells = _of_places(waves.standing)
    elif container in CONTAINERS:
        cells = getattr(waves, container.replace("-", "_"))
    else:
        raise ValueError(f"no history of {container!r}; there are {', '.join(CONTAINERS)}")
    by_row = cells.reshape(len(cells), -1, 5) if cells.ndim == 3 else cells[:, :, None]
    before = np.concatenate([np.full_like(by_row[:1], np.nan), by_row[:-1]])
    same = (by_row == before) | (np.isnan(by_row) & np.isnan(before))
    known = ~np.isnan(by_row)
    return ContainerHistory(
        values=np.nan_to_num(by_row).reshape(len(cells), -1),
        elements=known.sum((1, 2)),
        updates=(~same.all(2)).sum(1),
        times=times,
    )


def in_slots(rows: Sequence[PerCar], horizon: int) -> NDArray[np.float64]:
    """Return values in shape (waves, slots), 0 where no car has the slot.

    Args:
        rows: wave by wave.
        horizon: waves that a slot stays empty after its car has left.
    """
    slots: dict[int, int] = {}
    free: deque[tuple[int, int]] = deque()
    """From which wave on, and which slot; in this order."""
    places, count, present = [], 0, np.empty(0, np.int64)
    for wave, row in enumerate(rows):
        left = np.setdiff1d(present, row.cars).tolist()
        free.extend((wave + horizon, slots.pop(car)) for car in left)
        for car in np.setdiff1d(row.cars, present).tolist():
            if free and free[0][0] <= wave:
                slots[car] = free.popleft()[1]
            else:
                slots[car], count = count, count + 1
        present = row.cars
        places.append(np.array([slots[car] for car in row.cars.tolist()], np.int64))
    values = np.zeros((len(rows), count))
    for wave, (row, where) in enumerate(zip(rows, places, strict=True)):
        values[wave, where] = row.values
    return values


def _of_places(standing: Sequence[dict[str, float]]) -> NDArray[np.float64]:
    """Return the cars by place, shape (waves, places), NaN where nobody stands."""
    column = {place: at for at, place in enumerate(sorted({p for wave in standing for p in wave}))}
    cells = np.full((len(standing), len(column)), np.nan)
    for wave, places in enumerate(standing):
        for place, cars in places.items():
            cells[wave, column[place]] = cars
    return cells
