"""The Canadian fire weather index, hour by hour, as expressions of Spark.

Three moisture codes follow the weather of each hour: of needles and twigs on the ground (FFMC), of
the loose layer below (DMC) and of the deep, compact one (DC); all grow as fuel dries. With the wind
they give the spread index (ISI), the fuel that is available (BUI), and the index of both (FWI).

The equations are those of C. E. Van Wagner, Development and Structure of the Canadian Forest Fire
Weather Index System (1987) in the hourly form of the FWI System's 2025 edition, FWI2025: canopies
hold back the first rain, and the deeper layers dry in daylight only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

WEATHER = ("temperature", "humidity", "wind", "rain", "daylight")
"""Of an hour: degrees Celsius, per cent, km/h, mm; 1 between sunrise and sunset, else 0."""

START = {"ffmc": 85.0, "dmc": 6.0, "dc": 15.0, "rained": 0.0, "dry": 0.0}
"""Codes with which a season begins, and with them two facts about the last rain: the millimetres
since it has begun (0 once canopies are dry), and the hours since it has stopped (while they are
wet)."""

CODES = tuple(START)
"""What the floor of a forest remembers from hour to hour."""

BEFORE = tuple(f"before_{code}" for code in CODES)
"""The same at the beginning of an hour."""

_DRY_HOURS = 5
"""Hours without rain after which canopies hold rain back again."""

_MOISTURE = 14875 / 101
"""Scale of FFMC against moisture in per cent, so that FFMC 101 is bone-dry."""


def next_codes(hour: DataFrame) -> DataFrame:
    """Return the frame with :data:`CODES` at the end of the hour.

    Each ``withColumns`` is a stage: what several formulas use is computed, and compiled, once.

    Args:
        hour: :data:`WEATHER` and :data:`BEFORE`; other columns are kept.
    """
    col = sql.col
    raining = sql.round("rain", 1) > 0
    waited = sql.when(raining | (col("before_rained") == 0), 0.0).otherwise(col("before_dry") + 1)
    again = col("waited") >= _DRY_HOURS
    stages: list[dict[str, Column]] = [
        {"waited": waited},
        {
            "held": sql.when(again, 0.0).otherwise(col("before_rained")),
            "dry": sql.when(again, 0.0).otherwise(col("waited")),
        },
        {
            "rained": col("held") + col("rain"),
            "fine_rain": _below_canopy(held=0.5, lost=0.5, share=1.0),
            "duff_rain": _below_canopy(held=1.5, lost=1.27, share=0.92),
            "deep_rain": _below_canopy(held=2.8, lost=1.27, share=0.83),
            "fine": moisture(col("before_ffmc")),
            **_equilibria(),
        },
        {"fine": _soaked(col("fine"), col("fine_rain"))},
        # Beside a fire, for which they were not made, the equations dry fuel below nothing.
        {"fine": sql.greatest(_approached_equilibrium(col("fine")), sql.lit(0.0))},
        {
            "ffmc": 59.5 * (250 - col("fine")) / (_MOISTURE + col("fine")),
            "dmc": _duff_moisture_code(col("before_dmc"), col("duff_rain")),
            "dc": _drought_code(col("before_dc"), col("deep_rain")),
        },
    ]
    after = hour
    for stage in stages:
        after = after.withColumns(stage)
    return after.select(*hour.columns, *CODES)


def _below_canopy(held: float, lost: float, share: float) -> Column:
    """Return the millimetres of rain that reach a layer.

    Args:
        held: millimetres that canopies hold.
        lost: millimetres of each rain that never reach the layer.
        share: of the rest that does.
    """
    before, rain = sql.col("held"), sql.col("rain")
    return (
        sql.when(sql.round(before + rain, 1) <= held, 0.0)
        .when(sql.round(before, 1) > held, share * rain)
        .otherwise(share * (before + rain) - lost)
    )


def moisture(ffmc: Column) -> Column:
    """Return the moisture of fine fuel in per cent, 0 to 250."""
    # A mean of codes may be above 101 by a rounding error.
    return sql.greatest(_MOISTURE * (101 - ffmc) / (59.5 + ffmc), sql.lit(0.0))


def _soaked(fine: Column, rain: Column) -> Column:
    """Return the moisture of fine fuel after rain."""
    taken = 42.5 * rain * sql.exp(-100 / (251 - fine)) * (1 - sql.exp(-6.93 / rain))
    flooded = sql.when(fine > 150, 0.0015 * (fine - 150) ** 2 * sql.sqrt(rain)).otherwise(0.0)
    return sql.when(rain > 0, sql.least(fine + taken + flooded, sql.lit(250.0))).otherwise(fine)


def _equilibria() -> dict[str, Column]:
    """Return the moisture to which fine fuel dries, and the one up to which air moistens it."""
    humidity = sql.col("humidity")
    warm = 0.18 * (21.1 - sql.col("temperature")) * (1 - sql.exp(-0.115 * humidity))
    steam = sql.exp((humidity - 100) / 10)
    return {
        "dried": 0.942 * humidity**0.679 + 11 * steam + warm,
        "moistened": 0.618 * humidity**0.753 + 10 * steam + warm,
    }


def _approached_equilibrium(fine: Column) -> Column:
    """Return the moisture of fine fuel after an hour in this air."""

    def approached(equilibrium: Column, air: Column) -> Column:
        speed = 0.424 * (1 - air**1.7) + 0.0694 * sql.sqrt("wind") * (1 - air**8)
        rate = 0.1158 * sql.exp(0.0365 * sql.col("temperature")) * speed
        return equilibrium + (fine - equilibrium) * sql.pow(sql.lit(10.0), -rate)

    dried, moistened, air = sql.col("dried"), sql.col("moistened"), sql.col("humidity") / 100
    return (
        sql.when(fine > dried, approached(dried, air))
        .when(fine < moistened, approached(moistened, 1 - air))
        .otherwise(fine)
    )


def _duff_moisture_code(dmc: Column, rain: Column) -> Column:
    slope = (
        sql.when(dmc <= 33, 100 / (0.5 + 0.3 * dmc))
        .when(dmc <= 65, 14 - 1.3 * sql.log(dmc))
        .otherwise(6.2 * sql.log(dmc) - 17.2)
    )
    before = 20 + 280 * sql.exp(-dmc / 43.43)
    wet = sql.least(before + 1000 * rain / (48.77 + slope * rain), sql.lit(300.0))
    warmth = sql.greatest(sql.col("temperature"), sql.lit(0.0))
    drying = sql.col("daylight") * 2.22e-4 * warmth * (100 - sql.col("humidity"))
    return 43.43 * sql.log(280 / (wet - 20)) + drying


def _drought_code(dc: Column, rain: Column) -> Column:
    temperature = sql.col("temperature")
    wet = sql.least(400 * sql.exp(-dc / 400) + 3.937 * rain / 2, sql.lit(400.0))
    drying = sql.when(temperature > 0, 0.015 * temperature + 3 / 16).otherwise(0.0)
    return 400 * sql.log(400 / wet) + sql.col("daylight") * drying


def spread_index(ffmc: Column, wind: Column) -> Column:
    """Return the initial spread index, ISI: how fast a fire would spread."""
    wet = moisture(ffmc)
    fuel = 91.9 * sql.exp(-0.1386 * wet) * (1 + wet**5.31 / 4.93e7)
    gale = 12 * (1 - sql.exp(-0.0818 * (wind - 28)))
    return 0.208 * fuel * sql.when(wind < 40, sql.exp(0.05039 * wind)).otherwise(gale)


def buildup_index(dmc: Column, dc: Column) -> Column:
    """Return the buildup index, BUI: how much fuel is dry enough to burn."""
    mean = sql.when((dmc == 0) & (dc == 0), 0.0).otherwise(0.8 * dmc * dc / (dmc + 0.4 * dc))
    less = dmc - (0.92 + (0.0114 * dmc) ** 1.7) * (1 - mean / dmc)
    return sql.when(mean < dmc, sql.greatest(less, sql.lit(0.0))).otherwise(mean)


def fire_weather_index(isi: Column, bui: Column) -> Column:
    """Return the fire weather index, FWI: how intense a fire would be."""
    fuel = sql.when(bui <= 80, 0.626 * bui**0.809 + 2).otherwise(
        1000 / (25 + 108.64 * sql.exp(-0.023 * bui))
    )
    intensity = 0.1 * isi * fuel
    return sql.when(intensity <= 1, intensity).otherwise(
        sql.exp(2.72 * (0.434 * sql.log(intensity)) ** 0.647)
    )
