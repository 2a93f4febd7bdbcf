"""Actions: what they may say, and what the engine decides on and launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Condition,
    Evaluation,
    FirstChanges,
    RetryPolicy,
    WatchedContainer,
)
from headgate.events import ContainerId
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.kinds import Either, Key, ListOf, MapOf, Numbers, RecordOf, Single
from headgate.flows.grammar.problems import Findings, suggestion
from headgate.flows.grammar.quantities import DURATION, duration_seconds
from headgate.flows.grammar.tree import Items, Scalar, Tree
from headgate.flows.grammar.values import DURATION_VALUE, NAME, TRUTH_VALUE, names_value, text_value
from headgate.flows.sections.bound_keys import BOUND
from headgate.flows.sections.bounds import check_bound_name, check_codec, read_bound, read_condition
from headgate.flows.sections.launching import LAUNCHED, LAUNCHING
from headgate.flows.sections.stages import STAGE_KEYS, STAGE_NEEDED, read_stage
from headgate.flows.sections.triggers import TRIGGER, read_trigger

EVERY = rf"every {DURATION}"
"""Pattern of a period, such as ``every 5 min``."""

_BACKOFF = Either(
    "a duration or [first, longest]",
    (
        DURATION_VALUE,
        ListOf(DURATION_VALUE, "two durations, [first, longest]", at_least=2, at_most=2),
    ),
)
_EVALUATION = Single(
    "`write`, `action-end` or `every 30 s`", pattern=EVERY, words=("write", "action-end")
)

_FILE = text_value("the path of a file")

STEP_ONLY = (
    "after",
    "reads",
    "writes",
    "when",
    "combine",
    "trigger",
    "evaluate",
    "own",
    "retries",
    "timeout",
    "first_changes",
    "depends",
    "launcher",
    "parameters",
)
"""Keys of an action that mean nothing on one that is fed from outside."""

ACTION = RecordOf(
    "the action",
    {
        "input": Key(
            names_value("a container", "containers"),
            "fed from outside: the containers that it fills",
        ),
        **LAUNCHING,
        "description": Key(text_value("a text"), "for people"),
        "after": Key(
            names_value("an action", "actions"),
            "actions that must have run before; default those that write what this one reads",
        ),
        "reads": Key(
            names_value("a container", "containers"),
            "containers that it reads; those that its bounds watch are read in any case",
        ),
        "writes": Key(names_value("a container", "containers"), "containers that it writes"),
        **STAGE_KEYS,
        "when": Key(
            MapOf(BOUND, "bounds by name", NAME, "bound", at_least=1),
            "bounds on containers; without any it runs each time its predecessors have run",
        ),
        "combine": Key(
            text_value("`all`, `at-least-one`, `majority` or an expression"),
            "which bounds must be reached: `all` (default), `at-least-one`, `majority`, or an "
            "expression such as `a or b and (c or d)`",
        ),
        "trigger": TRIGGER,
        "evaluate": Key(
            Either(
                f"{_EVALUATION.what}, or a list of them",
                (_EVALUATION, ListOf(_EVALUATION, "a list of evaluation times")),
            ),
            "when bounds are looked at; default `action-end`, or `write` where no action precedes",
        ),
        "own": Key(TRUTH_VALUE, "whether the action's own writes to what it watches count"),
        "retries": Key(
            Either(
                "a number of attempts, or `attempts` with `backoff`",
                (
                    Single(
                        "a number of attempts", numbers=Numbers(above=0, at_most=100, whole=True)
                    ),
                    RecordOf(
                        "retries",
                        {
                            "attempts": Key(
                                Single(
                                    "a number of attempts from 1 to 100",
                                    numbers=Numbers(above=0, at_most=100, whole=True),
                                ),
                                "attempts in all, before the action is quarantined",
                            ),
                            "backoff": Key(
                                _BACKOFF,
                                "wait before the second attempt, doubled up to the longest",
                            ),
                        },
                    ),
                ),
            ),
            "how often a failed run is tried, before the action is quarantined",
        ),
        "timeout": Key(DURATION_VALUE, "longest time that one attempt may take"),
        "first_changes": Key(
            Single("`snapshot` or `none`", words=tuple(FirstChanges)),
            "what the first run is shown by `run.changes` of a container: all that is there "
            "(`snapshot`, default), or what was written since the submit (`none`)",
        ),
        "depends": Key(
            Either("a file, or a list of files", (_FILE, ListOf(_FILE, "a list of files"))),
            "files that its code reads besides modules; their contents are part of what it "
            "computes. Paths begin at the dataflow file",
        ),
    },
    one_of=("input", *LAUNCHED),
    apart=(*(("input", key) for key in STEP_ONLY), ("trigger", "when"), ("trigger", "combine")),
    needs=STAGE_NEEDED,
    cures={
        "bounds": "did you mean `when`? Bounds stand there",
        "depends_on": "did you mean `after`?",
        "function": "did you mean `step`?",
        "inputs": "did you mean `in`, for flows, or `reads`, for containers?",
        "outputs": "did you mean `out`, for flows, or `writes`, for containers?",
    },
)


def read_depends(
    tree: yaml_tree.Mapping, actions: frozenset[str], findings: Findings
) -> tuple[str, ...]:
    """Return the files that an action depends on, as written.

    Args:
        tree: the action's.
        actions: the names of those that there are: one of them is hardly meant to be a file.
        findings: problems are added to them.
    """
    files: dict[str, None] = {}
    for one in _scalars(tree.get("depends")):
        path = one.text.strip()
        if not path or path.endswith("/") or "://" in path:
            findings.error(
                one.at,
                f"`{one.text}` is no path of a file",
                "write the path of each file, from the directory of the dataflow file on",
            )
        elif path in actions:
            findings.error(
                one.at,
                f"`{path}` is an action, and `depends` names files",
                f"did you mean `after: {path}`? Write `./{path}` for a file of that name",
            )
        elif path in files:
            findings.error(one.at, f"`{path}` is named twice", "remove one of them")
        files[path] = None
    return tuple(files)


class Declared(Struct, frozen=True):
    """The names in a file, those of parts that have errors too: using one is no further error."""

    containers: frozenset[str]
    actions: frozenset[str]
    flows: dict[str, tuple[str, ...]]
    """By action, its output flows."""


class ActionReader:
    """Reads the actions of one file, whose containers are known."""

    def __init__(
        self,
        containers: Mapping[str, WatchedContainer],
        declared: Declared,
        findings: Findings,
    ) -> None:
        self._containers = containers
        self._declared = declared
        self._findings = findings

    def action(self, name: str, tree: yaml_tree.Mapping) -> ActionSpec:
        """Return the action. Without ``after`` it has no predecessors yet."""
        fed = tree.get("input")
        if fed is not None:
            return ActionSpec(name, ActionRole.INPUT, writes=self._container_names(fed))
        bounds = tuple(self._bounds(tree))
        watched = (bound.container for bound in bounds)
        reads = dict.fromkeys((*self._container_names(tree.get("reads")), *watched))
        timeout = tree.get("timeout")
        return ActionSpec(
            name,
            ActionRole.STEP,
            after=self._predecessors(name, tree.get("after")),
            reads=tuple(reads),
            writes=self._container_names(tree.get("writes")),
            bounds=bounds,
            trigger=read_trigger(tree.get("trigger")),
            condition=self._condition(tree, bounds),
            evaluation=self._evaluation(tree),
            own=_is_true(tree.get("own")),
            retry=self._retries(tree.get("retries")),
            timeout=_seconds(timeout) if isinstance(timeout, Scalar) else None,
            first_changes=_first_changes(tree.get("first_changes")),
            stage=read_stage(name, tree, self._declared.flows, self._findings),
        )

    def _predecessors(self, name: str, tree: Tree | None) -> tuple[str, ...]:
        known: dict[str, None] = {}
        for one in _scalars(tree):
            if one.text not in self._declared.actions:
                self._findings.error(
                    one.at,
                    f"there is no action `{one.text}`",
                    suggestion(
                        one.text,
                        (other for other in self._declared.actions if other != name),
                        "action",
                    ),
                )
            else:
                known[one.text] = None
        return tuple(known)

    def _container_names(self, tree: Tree | None) -> tuple[ContainerId, ...]:
        return tuple(dict.fromkeys(filter(None, map(self._container, _scalars(tree)))))

    def _container(self, written: Scalar) -> ContainerId | None:
        if written.text in self._containers:
            return ContainerId(written.text)
        if written.text not in self._declared.containers:
            self._findings.error(
                written.at,
                f"there is no container `{written.text}`",
                suggestion(written.text, self._declared.containers, "container"),
            )
        return None

    def _bounds(self, tree: yaml_tree.Mapping) -> Iterator[Bound]:
        when = tree.get("when")
        if not isinstance(when, yaml_tree.Mapping):
            return
        for name, entry in when.entries.items():
            if not isinstance(entry.value, yaml_tree.Mapping):
                continue
            check_bound_name(name, entry, self._findings)
            written = entry.value.get("container")
            if isinstance(written, Scalar):
                container = self._container(written)
            elif name in self._containers:
                container = ContainerId(name)
            elif name in self._declared.containers:
                continue
            else:
                container = None
                known = suggestion(name, self._declared.containers, "container")
                self._findings.error(
                    entry.key.at,
                    f"bound `{name}` is named after no container and doesn't say which it watches",
                    f"add `container:` to the bound, or name it after its container; {known}",
                )
            if container is not None:
                bound = read_bound(name, container, entry.value, self._findings)
                codec = self._containers[container].codec
                check_codec(bound, codec, entry.key.at, self._findings)
                yield bound

    def _condition(self, tree: yaml_tree.Mapping, bounds: tuple[Bound, ...]) -> Condition | None:
        written = tree.get("combine")
        when = tree.get("when")
        if not isinstance(written, Scalar) or not isinstance(when, yaml_tree.Mapping):
            return None
        # All names of the file, so that a bound with an error isn't reported as unknown too.
        condition = read_condition(written, tuple(when.entries), self._findings)
        return condition if bounds else None

    def _evaluation(self, tree: yaml_tree.Mapping) -> Evaluation | None:
        written = tree.get("evaluate")
        if written is None:
            return None
        evaluation = Evaluation()
        for one in _scalars(written):
            match one.text:
                case "write":
                    evaluation = msgspec.structs.replace(evaluation, write=True)
                case "action-end":
                    evaluation = msgspec.structs.replace(evaluation, action_end=True)
                case _ if evaluation.every is not None:
                    self._findings.error(
                        one.at, f"`{one.text}` is a second period", "keep the shorter one"
                    )
                case period:
                    seconds = duration_seconds(period.removeprefix("every "))
                    evaluation = msgspec.structs.replace(evaluation, every=seconds)
        return evaluation

    def _retries(self, tree: Tree | None) -> RetryPolicy:
        policy = RetryPolicy()
        match tree:
            case Scalar(value=int() as attempts):
                return RetryPolicy(attempts)
            case yaml_tree.Mapping():
                match tree.get("attempts"):
                    case Scalar(value=int() as attempts):
                        policy = msgspec.structs.replace(policy, attempts=attempts)
                return self._backoff(policy, tree.get("backoff"))
            case _:
                return policy

    def _backoff(self, policy: RetryPolicy, tree: Tree | None) -> RetryPolicy:
        match tree:
            case Scalar():
                first = _seconds(tree)
                longest = max(first, policy.maximum)
            case Items(values=(Scalar() as low, Scalar() as high)):
                first, longest = _seconds(low), _seconds(high)
                if first > longest:
                    self._findings.error(
                        tree.at,
                        f"the first backoff, {low.text}, is longer than the longest, {high.text}",
                        f"write [{high.text}, {low.text}]",
                    )
            case _:
                return policy
        return msgspec.structs.replace(policy, first=first, maximum=longest)


def _scalars(tree: Tree | None) -> tuple[Scalar, ...]:
    values = tree.values if isinstance(tree, Items) else (tree,)
    return tuple(value for value in values if isinstance(value, Scalar))


def _first_changes(tree: Tree | None) -> FirstChanges:
    return FirstChanges(tree.text) if isinstance(tree, Scalar) else FirstChanges.SNAPSHOT


def _is_true(tree: Tree | None) -> bool:
    return isinstance(tree, Scalar) and tree.value is True


def _seconds(one: Scalar) -> float:
    return duration_seconds(one.value if isinstance(one.value, int | float) else one.text)
