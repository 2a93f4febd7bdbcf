"""Comparison of a dataflow file with its stages: they name the same flows and columns.

What differs would fail the first run of a stage, in production and at night.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from headgate.engine import ActionSpec, FilesSpec, TopicSpec
from headgate.events import KeyForm
from headgate.flows import Dataflow, Problem, Severity, StepLauncher, nearest
from headgate.incremental import DescribedStage
from headgate.spark import check_writable

_OF_CONTAINER = ("row", "column", "value", "deleted")
"""Columns of a container's increments."""


class _Found(Struct, frozen=True):
    """Something to correct, and the word of the action at which it stands."""

    word: str
    message: str
    cure: str
    severity: Severity = Severity.ERROR


def flow_problems(dataflow: Dataflow, stages: Mapping[str, DescribedStage]) -> tuple[Problem, ...]:
    """Return where the flows of a dataflow are not those of its stages, each in its line.

    Args:
        dataflow: as it was read.
        stages: what was found, by action; actions whose stage could not be imported are not there.
    """
    actions = {action.name: action for action in dataflow.spec.actions}
    problems = []
    for name, stage in stages.items():
        checks = (_inputs, _outputs, _columns_read, _columns_written, _parameters)
        for check in checks:
            for found in check(dataflow, actions[name], stage, stages):
                line, column = _place(dataflow, name, found.word)
                problems.append(
                    Problem(dataflow.file, line, column, found.message, found.cure, found.severity)
                )
    return tuple(problems)


def _inputs(
    dataflow: Dataflow, action: ActionSpec, stage: DescribedStage, _: object
) -> Iterator[_Found]:
    made = {} if action.stage is None else action.stage.inputs
    containers = {one.id for one in dataflow.spec.containers} - dataflow.outside
    fed = {*made, *action.reads, *containers}
    for flow in stage.inputs:
        if flow not in fed:
            meant = nearest(flow, [name for name in fed if name not in stage.inputs])
            hint = f"; did you mean it by `{meant}`?" if meant else ""
            yield _Found(
                action.name,
                f"nothing feeds input flow `{flow}` of stage `{stage.name}`",
                f"name it in `in` with the flow that another stage makes, or name a container, "
                f"files or a topic `{flow}` and read it{hint}",
            )
    for flow in (*made, *(name for name in action.reads if name in dataflow.outside)):
        if flow not in stage.inputs:
            yield _other(flow, "input", stage.name, stage.inputs)
    for flow in action.reads:
        if flow not in stage.inputs and flow not in dataflow.outside:
            found = _other(flow, "input", stage.name, stage.inputs)
            yield _Found(
                flow,
                f"{found.message}: its runs are not given what comes there",
                f"{found.cure}; leave it if it is only there for a bound",
                Severity.WARNING,
            )


def _outputs(
    _: Dataflow, action: ActionSpec, stage: DescribedStage, __: object
) -> Iterator[_Found]:
    out = () if action.stage is None else action.stage.outputs
    for flow in (*out, *action.writes):
        if flow not in stage.outputs:
            yield _other(flow, "output", stage.name, stage.outputs)


def _other(flow: str, kind: str, stage: str, flows: Iterable[str]) -> _Found:
    known = list(flows)
    meant = nearest(flow, known)
    cure = f"did you mean `{meant}`?" if meant else "correct the name here, or in the stage"
    listed = ", ".join(f"`{one}`" for one in known) or "none"
    return _Found(flow, f"stage `{stage}` has no {kind} flow `{flow}`, but {listed}", cure)


def _columns_read(
    dataflow: Dataflow,
    action: ActionSpec,
    stage: DescribedStage,
    stages: Mapping[str, DescribedStage],
) -> Iterator[_Found]:
    for flow, described in stage.inputs.items():
        columns = _columns_of(dataflow, action, flow, stages)
        if columns is None:
            continue
        for name in described.columns:
            if name not in columns:
                meant = nearest(name, columns)
                hint = f"did you mean `{meant}`?" if meant else "correct it in the stage"
                yield _Found(
                    flow,
                    f"stage `{stage.name}` routes or orders `{flow}` by column `{name}`, and it "
                    f"has {', '.join(columns) or 'no columns'}",
                    hint,
                )


def _columns_of(
    dataflow: Dataflow, action: ActionSpec, flow: str, stages: Mapping[str, DescribedStage]
) -> tuple[str, ...] | None:
    """Return the columns that an input flow has; None where they are not known."""
    source = None if action.stage is None else action.stage.inputs.get(flow)
    if source is not None:
        maker = stages.get(source.action)
        if maker is None or source.flow not in maker.outputs:
            return None
        return tuple(maker.columns(source.flow).names)
    outside: FilesSpec | TopicSpec | None = dataflow.files.get(flow) or dataflow.topics.get(flow)
    if outside is not None:
        key = (outside.key,) if isinstance(outside, TopicSpec) and outside.key else ()
        return tuple(dict.fromkeys((*outside.columns, *key)))
    known = any(one.id == flow for one in dataflow.spec.containers)
    return _OF_CONTAINER if known else None


def _columns_written(
    dataflow: Dataflow, action: ActionSpec, stage: DescribedStage, _: object
) -> Iterator[_Found]:
    containers = {one.id: one for one in dataflow.spec.containers}
    for flow in action.writes:
        if flow not in stage.outputs:
            continue
        columns = stage.columns(flow)
        if flow in dataflow.topics:
            key = dataflow.topics[flow].key
            if key and key not in columns.names:
                yield _Found(
                    flow,
                    f"the key of topic `{flow}` is column `{key}`, and output flow `{flow}` of "
                    f"stage `{stage.name}` has {', '.join(columns.names)}",
                    "name one of these as the topic's `key`, or add the column",
                )
        elif flow in containers and flow not in dataflow.outside:
            try:
                check_writable(containers[flow], dataflow.keys.get(flow, KeyForm.TEXT), columns)
            except ValueError as error:
                yield _Found(
                    flow,
                    f"output flow `{flow}` of stage `{stage.name}` cannot be written: {error}",
                    "correct the columns of the flow, or those of the container",
                )


def _parameters(
    _: Dataflow, action: ActionSpec, stage: DescribedStage, __: object
) -> Iterator[_Found]:
    runnable = None if action.stage is None else action.stage.runnable
    kept = runnable.setting if runnable is not None and runnable.kind == "lookup" else ()
    for flow, described in stage.inputs.items():
        is_kept = isinstance(kept, tuple) and flow in kept
        if described.goes_to_all and not stage.reads_all_groups and not is_kept:
            yield _Found(
                flow,
                f"units of `{flow}` go to all groups of their run, which are those of stage "
                f"`{stage.name}` of which something comes in that run: others never see them",
                "give the state `outer=Outer.FULL`, or read the flow of another stage by "
                f"`runnable: {{lookup: {flow}}}`; leave it if that is meant",
                Severity.WARNING,
            )


def _place(dataflow: Dataflow, action: str, word: str) -> tuple[int, int]:
    """Return the line and column of a word in an action; of the action, where it is not in it."""
    lines = dataflow.source.splitlines()
    # Containers and others may have the name of an action.
    start = _spot(lines, "actions", range(len(lines)), key=True) or (0, 0)
    spot = _spot(lines, action, range(start[0], len(lines)), key=True)
    if spot is None:
        launcher = dataflow.launcher_of(action)
        entry = launcher.step if isinstance(launcher, StepLauncher) else action
        return _spot(lines, entry, range(len(lines))) or (1, 1)
    line = spot[0]
    after = range(line, len(lines))
    inside = next(
        (n for n in after if lines[n].strip() and _indent(lines[n]) <= _indent(lines[line - 1])),
        len(lines),
    )
    if word == action:
        return spot
    return _spot(lines, word, range(line - 1, inside)) or spot


def _spot(
    lines: list[str], word: str, numbers: range, *, key: bool = False
) -> tuple[int, int] | None:
    """Return where a word is first, counted from 1, in lines that are counted from 0."""
    quoted = re.escape(word)
    pattern = rf"^\s*[\"']?({quoted})[\"']?\s*:" if key else rf"(?<![\w.-])({quoted})(?![\w-])"
    for number in numbers:
        if found := re.search(pattern, lines[number]):
            return number + 1, found.start(1) + 1
    return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
