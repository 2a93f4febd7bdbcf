"""Minutes of traffic written by hand."""

import numpy as np
from linear_road.records import Field, Kind, Minute


def record(**fields):
    """Return a record; what is not named is unused."""
    values = [-1] * len(Field)
    for name, value in fields.items():
        values[Field[name.upper()]] = value
    return values


def report(car, time, feet, speed=60, direction=0, lane=1, expressway=0):
    return record(
        kind=Kind.POSITION,
        time=time,
        car=car,
        speed=speed,
        expressway=expressway,
        lane=lane,
        direction=direction,
        segment=feet // 5280,
        position=feet,
    )


def journey(query, time, start, end, car=1):
    return record(
        kind=Kind.TRAVEL, time=time, car=car, expressway=0, query=query, start=start, end=end
    )


def minute(*records):
    lines = np.array(sorted(records, key=lambda one: one[Field.TIME]), np.int32)
    return Minute(int(lines[0, Field.TIME]) // 60, lines)
