"""The tables of the page, of the figures of one dataflow."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evaluation.learned.evaluation import BOUNDS

PAPER_ROC: Final = {"random forest": "0.86", "SVM": "0.82"}
"""Averages of all of the paper's experiments (section 3); it gives no others."""
PAPER_CONFIDENCE: Final = {
    "LRB": {"0.05": "> 95", "0.1": "> 95", "0.2": "> 95"},
    "AQHI": {"0.05": "> 95", "0.1": "> 95", "0.2": "> 90"},
}
"""Percent, apart from the first 100 waves (figure 10)."""
PAPER_EXECUTIONS: Final = {
    "LRB": {"0.05": "< 70", "0.1": "42", "0.2": "25"},
    "AQHI": {"0.05": "80", "0.1": "60", "0.2": "40"},
}
"""Percent of the synchronous ones (figure 12)."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as HTML; cells are escaped."""
    columns = "".join(f"<th>{html.escape(each)}</th>" for each in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"


def quality_table(figures: Mapping[str, Any]) -> str:
    """Return accuracy, precision and recall of calibrated models, by bound."""
    names = ("accuracy", "precision", "recall")
    rows = [
        (_percent(bound), *("none" if of[n] is None else _share(of[n]) for n in names))
        for bound, of in figures["calibrated_quality"].items()
    ]
    return table(("ε", *(f"{name}, %" for name in names)), rows)


def classifier_table(figures: Mapping[str, Any]) -> str:
    """Return ROC areas by classifier; empty where they were not measured."""
    if "classifiers" not in figures:
        return ""
    head = ("classifier", "ι, 10-fold", "ι, later", "features, 10-fold", "features, later", "paper")
    rows = [
        (
            name,
            *(_number(by[of][when]) for of in ("ι", "features") for when in ("tenfold", "later")),
            PAPER_ROC.get(name, ""),
        )
        for name, by in figures["classifiers"].items()
    ]
    return table(head, rows)


def confidence_table(figures: Mapping[str, Any]) -> str:
    """Return confidences after the first waves, by bound."""
    head = (
        "ε", "all steps, %", "worst step, %", "whole, %", "worst output, %",
        "median violation, × ε", "largest, × ε", "paper, %",
    )  # fmt: skip
    rows = []
    for bound in _keys():
        step, whole = (figures[bound][setting]["learned"] for setting in ("step", "whole"))
        sizes = step["by_name"].values()
        medians = [each["median_size"] for each in sizes if each["median_size"] is not None]
        largest = [each["largest_size"] for each in sizes if each["largest_size"] is not None]
        rows.append(
            (
                _percent(bound),
                *(_share(of[key]) for of in (step, whole) for key in ("confidence", "worst")),
                f"{min(medians):.2f} to {max(medians):.2f}" if medians else "none",
                _number(max(largest, default=None)),
                PAPER_CONFIDENCE[figures["name"]][bound],
            )
        )
    return table(head, rows)


def execution_table(figures: Mapping[str, Any]) -> str:
    """Return executions and savings, by bound."""
    head = (
        "ε", "learned", "optimal", "synchronous", "executed, %", "optimal, %", "paper executed, %",
        "whole: saved, %", "whole, optimal: saved, %",
    )  # fmt: skip
    rows = []
    for bound in _keys():
        runs, whole = figures["executions"][bound], figures[bound]["whole"]
        rows.append(
            (
                _percent(bound),
                *(f"{runs[policy]:,}" for policy in ("learned", "optimal", "synchronous")),
                *(_share(runs[policy] / runs["synchronous"]) for policy in ("learned", "optimal")),
                PAPER_EXECUTIONS[figures["name"]][bound],
                *(_share(whole[policy]["saved"]) for policy in ("learned", "oracle")),
            )
        )
    return table(head, rows)


def denominator_table(figures: Mapping[str, Any]) -> str:
    """Return confidences by both denominators of ε, by bound."""
    head = (
        "ε", "learned by Σ max, %", "learned by Σ|x|, %", "optimal by Σ max, %",
        "optimal by Σ|x|, %", "ε by Σ|x| over ε by Σ max, median",
    )  # fmt: skip
    rows = []
    for bound, by_policy in figures["denominators"].items():
        learned, oracle = by_policy["learned"], by_policy["oracle"]
        shares = [_share(of[key]) for of in (learned, oracle) for key in ("maximum", "current")]
        rows.append((_percent(bound), *shares, _number(learned["median_ratio"])))
    return table(head, rows)


def overhead_table(figures: Mapping[str, Any]) -> str:
    """Return the overheads; empty where they were not measured."""
    if "overheads" not in figures:
        return ""
    rows = [
        ("monitoring accesses to the data store", "see tests/bench/proxy.py", "left out"),
        *(
            (each["source"], each["what"], _milliseconds(each["milliseconds"]))
            for each in figures["overheads"]
        ),
        (
            "building the model",
            "with folds, calibration and the test phase, mean of all steps and bounds",
            _milliseconds(1000 * figures["fit_seconds"]),
        ),
    ]
    return table(("source", "what", "ms of a processor"), rows)


def _keys() -> list[str]:
    return [f"{bound:g}" for bound in BOUNDS]


def _percent(bound: str) -> str:
    return f"{100 * float(bound):g} %"


def _share(value: float) -> str:
    return f"{100 * value:.1f}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.3g}"
