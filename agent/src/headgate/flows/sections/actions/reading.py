"""Actions as the engine decides on them, read from a file whose containers are known."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    Condition,
    DataflowSpec,
    Evaluation,
    FirstChanges,
    RetryPolicy,
)
from headgate.events import ContainerId
from headgate.flows.grammar.problems import suggestion
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.tree import Items, Mapping, Scalar, Tree, number_or_text, scalars_of
from headgate.flows.sections.actions.bounds import (
    check_bound_name,
    check_codec,
    read_bound,
    read_condition,
)
from headgate.flows.sections.actions.stages import output_flows, read_stage
from headgate.flows.sections.actions.triggers import read_trigger
from headgate.flows.sections.section import Draft


class ActionReader:
    """Reads the actions of one file.

    Names in the file count as known if what they name has errors: using it is no further error.

    Args:
        draft: the file.
        spec: its containers.
    """

    def __init__(self, draft: Draft, spec: DataflowSpec) -> None:
        self._findings = draft.findings
        self._containers = {one.id: one for one in spec.containers}
        self._known = frozenset(
            name for key in ("containers", "files", "topics") for name in draft.written(key)
        )
        written = draft.written("actions")
        self._flows = {name: output_flows(entry.value) for name, entry in written.items()}

    def action(self, name: str, tree: Mapping) -> ActionSpec:
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
            stage=read_stage(name, tree, self._flows, self._findings),
        )

    def _predecessors(self, name: str, tree: Tree | None) -> tuple[str, ...]:
        known: dict[str, None] = {}
        for one in scalars_of(tree):
            if one.text not in self._flows:
                self._findings.error(
                    one.at,
                    f"there is no action `{one.text}`",
                    suggestion(
                        one.text,
                        (other for other in self._flows if other != name),
                        "action",
                    ),
                )
            else:
                known[one.text] = None
        return tuple(known)

    def _container_names(self, tree: Tree | None) -> tuple[ContainerId, ...]:
        return tuple(dict.fromkeys(filter(None, map(self._container, scalars_of(tree)))))

    def _container(self, written: Scalar) -> ContainerId | None:
        if written.text in self._containers:
            return ContainerId(written.text)
        if written.text not in self._known:
            self._findings.error(
                written.at,
                f"there is no container `{written.text}`",
                suggestion(written.text, self._known, "container"),
            )
        return None

    def _bounds(self, tree: Mapping) -> Iterator[Bound]:
        when = tree.get("when")
        if not isinstance(when, Mapping):
            return
        for name, entry in when.entries.items():
            if not isinstance(entry.value, Mapping):
                continue
            check_bound_name(name, entry, self._findings)
            written = entry.value.get("container")
            if isinstance(written, Scalar):
                container = self._container(written)
            elif name in self._containers:
                container = ContainerId(name)
            elif name in self._known:
                continue
            else:
                container = None
                known = suggestion(name, self._known, "container")
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

    def _condition(self, tree: Mapping, bounds: tuple[Bound, ...]) -> Condition | None:
        written = tree.get("combine")
        when = tree.get("when")
        if not isinstance(written, Scalar) or not isinstance(when, Mapping):
            return None
        # All names of the file, so that a bound with an error isn't reported as unknown too.
        condition = read_condition(written, tuple(when.entries), self._findings)
        return condition if bounds else None

    def _evaluation(self, tree: Mapping) -> Evaluation | None:
        written = tree.get("evaluate")
        if written is None:
            return None
        evaluation = Evaluation()
        for one in scalars_of(written):
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
            case Mapping():
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


def _first_changes(tree: Tree | None) -> FirstChanges:
    return FirstChanges(tree.text) if isinstance(tree, Scalar) else FirstChanges.SNAPSHOT


def _is_true(tree: Tree | None) -> bool:
    return isinstance(tree, Scalar) and tree.value is True


def _seconds(one: Scalar) -> float:
    return duration_seconds(number_or_text(one))
