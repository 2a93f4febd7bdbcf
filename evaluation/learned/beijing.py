"""Learned triggers on recorded years: trained on one, in service for two later ones.

AQHI over the record of Beijing's stations: trained on the 8,760 hours from March 2013 on, in
service from March 2015 to February 2017. Each step is looked at on synchronous input, as in the
paper, under a threshold that stays, with audits and feedback, and fitted anew as well, to the pairs
of waves in which its output was made and when a dataflow would be; beside them an oracle. Then the
same for the fire risk of a forest over the recorded summer of 2007, trained on its first half.
Forests are fitted to samples of the pairs: 10,000 in training, later 3,000 of training and 3,000 of
service. All figures are of waves that nothing was trained or calibrated on.

    python -m evaluation.learned.beijing [--data FOLDER] [--detectors 12] [--steps 4,5]
        [--bounds 0.05,0.1,0.2] [--only AQHI|fire]

The last line is all figures as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from evaluation.learned.adaptation import Served, ServedOutput, labelled, sampled_trees, served
from evaluation.learned.evaluation import BOUNDS, CONFIDENCE
from evaluation.learned.records import AIR, FIRE, Record, air_quality, fire_risk
from headgate.learning import (
    ErrorMetric,
    Graph,
    Step,
    Target,
    errors,
    features,
    fit,
)

_DATA: Final = Path(__file__).resolve().parents[3] / "shared" / "data"
_INDEX: Final = "5"
"""The step of AQHI that makes the index."""
_SAVED, _MONTH = 0.75, 0.90
"""What is asked for: of the index' runs, and of each month's confidence."""


def evaluate(record: Record, step: str, bound: float) -> dict[str, Any]:
    """Return the figures of a step at a bound, by policy."""
    output, reads = record.steps[step]
    graph = Graph([Step(step, reads, (output,))])
    began = time.process_time()
    fitted = fit(
        graph,
        {container: record.training[container] for container in (output, *reads)},
        [Target(output, ErrorMetric.RELATIVE, bound, CONFIDENCE)],
        sampled_trees,
    )
    spent = time.process_time() - began
    (report,) = fitted.report.outputs
    found: dict[str, Any] = {
        "training": {
            "saved": report.calibration.saved,
            "confidence": report.confidence,
            "seconds": spent,
        },
        "words": report.words,
    }
    if output not in fitted.models:
        return found
    known, service = errors(record.training[output], ErrorMetric.RELATIVE), record.service
    means = record.training[output].means
    tables = {each: features(record.training[each], means) for each in reads}
    training = labelled(tables, known, bound, len(known))
    in_service = ServedOutput(
        errors(service[output], ErrorMetric.RELATIVE),
        bound,
        {each: features(service[each], service[output].means) for each in reads},
    )
    name = f"{record.name} {step}"
    policies = served(name, graph, in_service, fitted.models[output], training)
    return found | {policy: figures_of(each, record) for policy, each in policies.items()}


def figures_of(served: Served, record: Record) -> dict[str, Any]:
    """Return what a policy saves, how sure it is by year and month, and what adapting costs."""
    violated = served.loop.violated
    months = {
        str(month): 1.0 - float(violated[record.months == month].mean())
        for month in np.unique(record.months)
    }
    worst = min(months, key=months.__getitem__)
    return {
        "saved": served.loop.saved,
        "confidence": served.loop.confidence,
        "years": [
            1.0 - float(violated[record.years == year].mean()) for year in np.unique(record.years)
        ],
        "worst_month": worst,
        "worst": months[worst],
        "audits": served.audits,
        "changes": served.changes,
        "synchronous": served.synchronous,
        "fits": served.fits,
        "fit_seconds": served.fit_seconds,
    }


def missed(step: str, found: Mapping[str, Any]) -> list[str]:
    """Return in words what is asked for and is not there under a policy."""
    words = [
        f"{100 * kept:.1f} % in year {year}"
        for year, kept in enumerate(found["years"], 1)
        if kept < CONFIDENCE
    ]
    if found["worst"] < _MONTH:
        words.append(f"{100 * found['worst']:.1f} % in {found['worst_month']}")
    if step == _INDEX and found["saved"] < _SAVED:
        words.append(f"{100 * found['saved']:.1f} % saved of the index")
    return words


def lines_of(step: str, bound: float, figures: Mapping[str, Any]) -> list[str]:
    """Return the figures of a step at a bound as text, with what is missed of what is asked for."""
    training = figures["training"]
    heading = (
        f"step {step}, ε {100 * bound:g} %: out of fold {100 * training['saved']:.1f} % saved, "
        f"{100 * training['confidence']:.1f} % sure, {training['seconds']:.0f} s of fitting"
    )
    lines = [heading]
    if "oracle" not in figures:
        return [*lines, f"  synchronous, as there is no model: {figures['words']}"]
    for policy in ("oracle", "stays", "audits", "refit"):
        each = figures[policy]
        years = ", ".join(f"{100 * kept:.1f}" for kept in each["years"])
        lines.append(
            f"  {policy:7} saved {100 * each['saved']:4.1f} %, confidence "
            f"{100 * each['confidence']:5.1f} % (by year {years}; worst month "
            f"{100 * each['worst']:5.1f}, {each['worst_month']}); {each['audits']} audits, "
            f"{each['changes']} changes, {each['synchronous']} synchronous waves, {each['fits']} "
            f"fits in {each['fit_seconds']:.0f} s"
        )
        words = missed(step, each)
        if words:
            lines.append(f"          missed: {'; '.join(words)}")
    return lines


def main() -> None:
    """Print what every policy saves and keeps on recorded years."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=_DATA, help="holds the recorded years")
    parser.add_argument("--detectors", type=int, default=12, help="a side, of AQHI")
    parser.add_argument("--steps", help="of AQHI and fire, with commas; all where left out")
    parser.add_argument("--bounds", default=",".join(f"{bound:g}" for bound in BOUNDS))
    parser.add_argument("--only", choices=("AQHI", "fire"))
    options = parser.parse_args()
    bounds = [float(bound) for bound in options.bounds.split(",")]
    began = time.monotonic()
    figures: dict[str, Any] = {}
    for name, path in (("AQHI", AIR), ("fire", FIRE)):
        if options.only not in (None, name):
            continue
        if not (options.data / path).exists():
            print(f"{name}: {options.data / path} is not there; --data names another folder")
            continue
        if name == "AQHI":
            record = air_quality(options.data, options.detectors)
        else:
            record = fire_risk(options.data)
        print(f"== {name}: {len(record.months)} waves of service", flush=True)
        figures[name] = {}
        for step in options.steps.split(",") if options.steps else record.steps:
            if step not in record.steps:
                continue
            for bound in bounds:
                found = evaluate(record, step, bound)
                figures[name].setdefault(step, {})[f"{bound:g}"] = found
                print("\n".join(lines_of(step, bound, found)), flush=True)
    seconds = round(time.monotonic() - began)
    print(f"{seconds} s in all")
    print(json.dumps({"seconds": seconds, **figures}))


if __name__ == "__main__":
    main()
