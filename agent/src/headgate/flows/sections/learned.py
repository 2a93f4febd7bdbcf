"""Triggers that are learned from the error that outputs may have: the section ``learned``."""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from typing import Final

import msgspec

from headgate.engine import (
    ActionSpec,
    CodecName,
    DataflowSpec,
    SpecificationError,
    UserMetric,
    WatchedContainer,
)
from headgate.flows.grammar.kinds import ANY_TEXT, Either, Key, MapOf, Numbers, RecordOf, Single
from headgate.flows.grammar.problems import Findings, suggestion
from headgate.flows.grammar.quantities import PERCENTAGE, percentage_points, why_no_percentage
from headgate.flows.grammar.tree import Entry, Mapping, Scalar, Tree, entries_of, text_of
from headgate.flows.sections.actions.bound_keys import METRIC_CLASS, METRIC_VALUE
from headgate.flows.sections.containers.outside import require_values
from headgate.flows.sections.section import Draft, Section
from headgate.learning import (
    Changes,
    ErrorMetric,
    LearnedSettings,
    OutputMetric,
    OutputSettings,
    decided_on,
    fewest_confident,
    fewest_waves,
    learned,
    learned_actions,
    trigger_of,
)

_PERCENT: Final = Single("a percentage such as `5%`", pattern=PERCENTAGE, why_not=why_no_percentage)
_ERROR: Final = Either(
    "a percentage such as `5%`, or an error such as `rmse: 2` or `python`",
    (
        _PERCENT,
        RecordOf(
            "the error",
            {
                "relative": Key(
                    _PERCENT, "sum of differences in percent of the sum of the larger values"
                ),
                "rmse": Key(
                    Single("a number above zero", numbers=Numbers(above=0)),
                    "root of the mean squared difference, in the values' own units",
                ),
                "python": Key(
                    RecordOf(
                        "the metric",
                        {
                            "class": METRIC_CLASS,
                            "limit": Key(
                                Single("a number above zero", numbers=Numbers(above=0)),
                                "in the metric's own units",
                                required=True,
                            ),
                        },
                    ),
                    "what a metric of your own gives, computed in a worker",
                ),
            },
            one_of=("relative", "rmse", "python"),
        ),
    ),
)
_OUTPUT: Final = Either(
    "a percentage such as `5%`, or an error and its confidence",
    (
        _PERCENT,
        RecordOf(
            "the output",
            {
                "error": Key(
                    _ERROR,
                    "how far it may be from what it would be if every step ran in every wave",
                    required=True,
                ),
                "confidence": Key(
                    _PERCENT, "share of the waves in which it is no farther; default 95%"
                ),
                "changes": Key(
                    Single("`cancel` or `accumulate`", words=tuple(Changes)),
                    "`accumulate` adds up the errors from wave to wave since the last run, also "
                    "of changes that undo each other; default `cancel`",
                ),
            },
        ),
    ),
)

_NEVER: Final = "never"
_INTERVAL: Final = Single(
    "a number of waves from 1 to 100000, or `never`",
    words=(_NEVER,),
    numbers=Numbers(0, 100_000, whole=True),
)

_GRAMMAR: Final = RecordOf(
    "the learned triggers",
    {
        "outputs": Key(
            MapOf(_OUTPUT, "errors by container", ANY_TEXT, "container", at_least=1),
            "the containers that people read, each with the error that it may have",
            required=True,
        ),
        "impacts": Key(
            MapOf(METRIC_VALUE, "metrics by container", ANY_TEXT, "container", at_least=1),
            "metrics of your own that say how much a container above an output has changed",
        ),
        "audit": Key(
            _PERCENT,
            "share of the skips that run all the same, so that the confidence is measured; "
            "default 5%",
        ),
        "waves": Key(
            Single("a number of waves from 1 to 100000", numbers=Numbers(0, 100_000, whole=True)),
            "in which every step runs, before a model is tried; default 336",
        ),
        "horizon": Key(
            Single("a number of waves from 1 to 1000", numbers=Numbers(0, 1000, whole=True)),
            "after which an output is made again, whatever is predicted; default 24",
        ),
        "refit": Key(
            _INTERVAL,
            "after which models are fitted anew to what running steps have shown, sooner after "
            "training; default 336",
        ),
        "retrain": Key(
            _INTERVAL,
            "after which every step runs in `waves` waves again and models are trained anew; "
            "default never",
        ),
    },
)


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    tree = draft.tree.get("learned")
    if not isinstance(tree, Mapping):
        return spec
    if "significance" in draft.tree.entries:
        draft.findings.error(
            draft.tree.entries["learned"].key.at,
            "`learned` and `significance` both decide when the same steps run",
            "keep one of them",
        )
    actions = _with_triggers(tree, spec, draft)
    require_values(draft, "learned")
    return msgspec.structs.replace(spec, actions=tuple(actions.values()))


def _with_triggers(tree: Mapping, spec: DataflowSpec, draft: Draft) -> dict[str, ActionSpec]:
    """Return the actions, those with learned triggers that lead to a bounded output."""
    findings, trees = draft.findings, draft.mappings("actions")
    actions = {action.name: action for action in spec.actions}
    containers: dict[str, WatchedContainer] = {one.id: one for one in spec.containers}
    bounded = entries_of(tree.get("outputs"))
    for name, entry in bounded.items():
        _check_output(name, entry, actions, containers, findings)
    measured = entries_of(tree.get("impacts"))
    for name, entry in measured.items():
        _check_numbers("impact", name, entry, containers, findings)
    if findings.failed:
        return actions
    settings = LearnedSettings(
        {name: _output(entry.value) for name, entry in bounded.items()},
        impacts={name: text_of(entry.value) for name, entry in measured.items()},
    )
    audit, waves, horizon = (tree.get(key) for key in ("audit", "waves", "horizon"))
    if isinstance(audit, Scalar):
        settings = msgspec.structs.replace(settings, audit=percentage_points(audit.text) / 100)
    if isinstance(waves, Scalar):
        settings = msgspec.structs.replace(settings, waves=int(waves.text))
    if isinstance(horizon, Scalar):
        settings = msgspec.structs.replace(settings, horizon=int(horizon.text))
    for key in ("refit", "retrain"):
        interval = tree.get(key)
        if isinstance(interval, Scalar):
            between = 0 if interval.value == _NEVER else int(interval.text)
            settings = msgspec.structs.replace(settings, **{key: between})
    _warn_of_too_few_waves(tree, bounded, settings, findings)
    decided = decided_on(tuple(actions.values()), tuple(settings.outputs))
    for name in decided:
        for key in ("when", "trigger"):
            own = trees[name].entries.get(key)
            if own is not None:
                findings.error(
                    own.key.at,
                    f"`learned` decides when `{name}` runs, since it leads to a bounded output",
                    f"remove `{key}`, or bound another output",
                )
        _warn_of_own_input(actions[name], trees[name], findings)
    trigger = trigger_of(settings)
    return {
        name: msgspec.structs.replace(action, trigger=trigger) if name in decided else action
        for name, action in actions.items()
    }


def _warn_of_too_few_waves(
    tree: Mapping,
    bounded: AbstractMapping[str, Entry],
    settings: LearnedSettings,
    findings: Findings,
) -> None:
    """Note outputs that no training on so many waves can give a model."""
    for name, output in settings.outputs.items():
        if not 0.0 < output.confidence < 1.0:
            continue  # which is an error
        needed = max(fewest_waves(settings.horizon), fewest_confident(output.confidence))
        if settings.waves < needed:
            written = tree.entries.get("waves")
            at = bounded[name].key.at if written is None else written.key.at
            findings.warning(
                at,
                f"no training on {settings.waves} waves gives `{name}` a model: a confidence of "
                f"{100 * output.confidence:g}% takes {needed} without a violation",
                f"raise `waves` to {needed}, or lower the confidence",
            )


def _check_output(
    name: str,
    entry: Entry,
    actions: AbstractMapping[str, ActionSpec],
    containers: AbstractMapping[str, WatchedContainer],
    findings: Findings,
) -> None:
    if not _check_numbers("error", name, entry, containers, findings):
        return
    at = entry.key.at
    if not decided_on(tuple(actions.values()), (name,)):
        findings.error(
            at,
            f"no step writes `{name}`, so that nothing decides how far it is off",
            "name it in `writes` of the step that makes it",
        )


def _check_numbers(
    what: str,
    name: str,
    entry: Entry,
    containers: AbstractMapping[str, WatchedContainer],
    findings: Findings,
) -> bool:
    """Return whether there is such a container, noting what is wrong with it."""
    at = entry.key.at
    if name not in containers:
        cure = suggestion(name, containers, "container")
        findings.error(at, f"there is no container `{name}`", cure)
        return False
    if containers[name].codec.name is CodecName.OPAQUE:
        findings.error(
            at,
            f"the {what} of `{name}` needs numbers; its values are opaque",
            f"give `{name}` a codec such as `number`",
        )
    return True


def _output(tree: Tree) -> OutputSettings:
    if isinstance(tree, Scalar):
        return OutputSettings(percentage_points(tree.text) / 100)
    assert isinstance(tree, Mapping)  # noqa: S101 -- as matched
    confidence, changes = tree.get("confidence"), tree.get("changes")
    settings = _error(tree.get("error"))
    if isinstance(confidence, Scalar):
        share = percentage_points(confidence.text) / 100
        settings = msgspec.structs.replace(settings, confidence=share)
    if isinstance(changes, Scalar):
        settings = msgspec.structs.replace(settings, changes=Changes(changes.text))
    return settings


def _error(tree: Tree | None) -> OutputSettings:
    metric: OutputMetric = ErrorMetric.RELATIVE
    bound = tree
    if isinstance(tree, Mapping):
        kind, entry = next(iter(tree.entries.items()))
        bound = entry.value
        if isinstance(bound, Mapping):
            metric, bound = UserMetric(text_of(bound.get("class"))), bound.get("limit")
        else:
            metric = ErrorMetric(kind)
    assert isinstance(bound, Scalar)  # noqa: S101 -- as matched
    if metric is ErrorMetric.RELATIVE:
        return OutputSettings(percentage_points(bound.text) / 100)
    return OutputSettings(float(bound.text), metric)


def _warn_of_own_input(action: ActionSpec, tree: Mapping, findings: Findings) -> None:
    own = [c for c in dict.fromkeys(action.reads) if c in action.writes]
    if own:
        findings.warning(
            tree.at,
            f"`{action.name}` reads {', '.join(f'`{c}`' for c in own)}, which it writes; learned "
            "triggers take for granted that it makes the same of its input without",
            "leave it out of the learned outputs' way if what it makes depends on how often it ran",
        )


def _check(draft: Draft, spec: DataflowSpec) -> None:
    """Note what keeps the dataflow's learned triggers from being made."""
    tree = draft.tree.get("learned")
    if tree is None:
        return
    try:
        learned(spec, learned_actions(spec))
    except SpecificationError as error:
        for problem in error.problems:
            draft.findings.error(tree.at, problem, "correct the section `learned`")


LEARNED: Final[Section[None]] = Section(
    "learned",
    Key(
        _GRAMMAR,
        "errors that outputs may have, from which it is learned which waves can be skipped",
    ),
    specify=_specify,
    check=_check,
)
