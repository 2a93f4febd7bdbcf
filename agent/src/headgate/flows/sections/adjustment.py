"""How intervals are adjusted: the section ``adjustment`` of a dataflow file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from headgate.engine import (
    RESOURCES,
    AdjustmentSpec,
    FrequencyUnit,
    Reference,
    Resource,
    WriteReference,
)
from headgate.flows.grammar.kinds import Either, Key, ListOf, Numbers, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.quantities import (
    PERCENTAGE,
    duration_seconds,
    percentage_points,
    why_no_percentage,
)
from headgate.flows.grammar.tree import Items, Mapping, Scalar, Tree, number_or_text
from headgate.flows.grammar.values import DURATION_VALUE
from headgate.flows.sections.changes import Setting, always
from headgate.flows.sections.section import Draft, Section

_BYTES = {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9}
_RATE = rf"(?=[^1-9]*[1-9])[0-9]{{1,12}}(?:\.[0-9]{{1,9}})? ?(?:{'|'.join(_BYTES)})"

_COUNT = Single("a number from 1 to 1000", numbers=Numbers(above=0, at_most=1000, whole=True))
_PERCENT = Single("a percentage such as `85%`", pattern=PERCENTAGE, why_not=why_no_percentage)
_FREQUENCY = Single(
    "a number of updates in a window, or a percentage of the usual number",
    pattern=PERCENTAGE,
    numbers=Numbers(above=0),
    why_not=why_no_percentage,
)


def _reference(single: Single, example: str) -> Either:
    what = f"two reference values, [idle, overloaded], such as `{example}`"
    pair = ListOf(single, what, at_least=2, at_most=2)
    return Either(f"{what}, or `none`", (Single("`none`", words=("none",)), pair))


_SHARES = _reference(_PERCENT, "[30%, 85%]")

_GRAMMAR: Final = RecordOf(
    "the adjustment",
    {
        "start": Key(
            Single(
                "`minimum`, `maximum` or a percentage of the interval",
                pattern=PERCENTAGE,
                words=("minimum", "maximum"),
                why_not=why_no_percentage,
            ),
            "where limits start in their intervals; default `minimum`",
        ),
        "steps": Key(_COUNT, "steps from the minimum of an interval to its maximum; default 10"),
        "every": Key(DURATION_VALUE, "how often both factors vote; default 10 s"),
        "window": Key(
            DURATION_VALUE, "time in which writes are counted and resources averaged; default 1 min"
        ),
        "confirmations": Key(_COUNT, "equal outcomes in a row before a step; default 3"),
        "reversal": Key(
            DURATION_VALUE, "least time between two steps in opposite directions; default 10 min"
        ),
        "silence": Key(
            DURATION_VALUE,
            "age from which on a machine's samples say nothing any more; default 30 s",
        ),
        "writes": Key(
            RecordOf(
                "the frequency of writes",
                {
                    "rare": Key(
                        _FREQUENCY, "up to which a bound is restricted; default 50%", required=True
                    ),
                    "frequent": Key(
                        _FREQUENCY, "from which on it is relaxed; default 200%", required=True
                    ),
                },
            ),
            "reference values of the first factor: updates in a window",
        ),
        "resources": Key(
            RecordOf(
                "the resources",
                {
                    "cpu": Key(_SHARES, "busy cores; default [30%, 85%]"),
                    "memory": Key(_SHARES, "memory that is not available; default [70%, 92%]"),
                    "disk": Key(_SHARES, "time in which a disk was busy; default [30%, 85%]"),
                    "network": Key(
                        _reference(
                            Single("a rate such as `80 MB/s`", pattern=_RATE), "[10 MB/s, 80 MB/s]"
                        ),
                        "received and sent; default `none`",
                    ),
                    "load": Key(
                        _reference(
                            Single("a number of processes per core", numbers=Numbers(above=0)),
                            "[0.5, 1.5]",
                        ),
                        "processes that run or want to, per core; default [0.5, 1.5]",
                    ),
                },
            ),
            "reference values of the second factor, of each machine on which steps run",
        ),
    },
)


def _read(tree: Tree | None, draft: Draft) -> AdjustmentSpec:
    findings = draft.findings
    if not isinstance(tree, Mapping):
        return AdjustmentSpec()
    spec = AdjustmentSpec()
    spec = msgspec.structs.replace(
        spec,
        **{
            key: duration_seconds(number_or_text(written))
            for key in ("every", "window", "reversal", "silence")
            if isinstance(written := tree.get(key), Scalar)
        },
        **{
            key: int(written.text)
            for key in ("steps", "confirmations")
            if isinstance(written := tree.get(key), Scalar)
        },
    )
    if spec.every > spec.window:
        findings.error(
            tree.at,
            f"votes every {spec.every:g} s on writes of a window of {spec.window:g} s",
            "make `window` at least as long as `every`",
        )
    return msgspec.structs.replace(
        spec,
        start=_start(tree.get("start"), findings),
        writes=_writes(tree.get("writes"), findings),
        resources=dict(_resources(tree.get("resources"), findings)),
    )


def _start(written: Tree | None, findings: Findings) -> float:
    if not isinstance(written, Scalar) or written.text == "minimum":
        return 0.0
    if written.text == "maximum":
        return 1.0
    points = percentage_points(written.text)
    if points > 100:  # per cent
        findings.error(
            written.at, f"`{written.text}` lies above the interval", "write at most `100%`"
        )
    return points / 100


def _writes(written: Tree | None, findings: Findings) -> WriteReference:
    if not isinstance(written, Mapping):
        return WriteReference()
    rare, frequent = written.get("rare"), written.get("frequent")
    if not isinstance(rare, Scalar) or not isinstance(frequent, Scalar):
        return WriteReference()
    usual = isinstance(rare.value, str)
    if usual != isinstance(frequent.value, str):
        findings.error(
            written.at,
            "one of `rare` and `frequent` is a percentage and the other is not",
            "write both in the same way",
        )
        return WriteReference()
    low, high = _frequency(rare), _frequency(frequent)
    if not low < high:
        _disordered(written, rare, frequent, findings)
    return WriteReference(low, high, FrequencyUnit.USUAL if usual else FrequencyUnit.UPDATES)


def _frequency(written: Scalar) -> float:
    value = number_or_text(written)
    return percentage_points(value) / 100 if isinstance(value, str) else float(value)


def _resources(written: Tree | None, findings: Findings) -> Iterator[tuple[Resource, Reference]]:
    for resource in Resource:
        one = written.get(resource.value) if isinstance(written, Mapping) else None
        if one is None and resource in RESOURCES:
            yield resource, RESOURCES[resource]
            continue
        match one:
            case Items(values=(Scalar() as idle, Scalar() as overloaded)):
                reference = Reference(_amount(idle), _amount(overloaded))
                if not reference.idle < reference.overloaded:
                    _disordered(one, idle, overloaded, findings)
                yield resource, reference


def _amount(written: Scalar) -> float:
    value = number_or_text(written)
    if not isinstance(value, str):
        return float(value)
    rate = re.fullmatch(r"([0-9.]+) ?([kMG]?B/s)", value)
    return float(rate[1]) * _BYTES[rate[2]] if rate else percentage_points(value)


def _disordered(at: Mapping | Items, low: Scalar, high: Scalar, findings: Findings) -> None:
    findings.error(
        at.at,
        f"`{low.text}` is not below `{high.text}`",
        "write the lower reference value first, and leave room between the two",
    )


ADJUSTMENT: Final = Section(
    "adjustment",
    Key(_GRAMMAR, "how limits that are intervals follow the writes and the machines' load"),
    _read,
    give=lambda adjustment, spec: msgspec.structs.replace(spec, adjustment=adjustment),
    difference=Setting(
        always("limits stay where they are"), lambda version: version.spec.adjustment
    ),
)
