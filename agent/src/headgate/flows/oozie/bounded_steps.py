"""Steps with ``error-bounds``: which of them learned triggers decide on, and what they come after.

A learned trigger is asked at the end of what its step reads from, so that a step comes after those
whose output it reads and no others. The workflow's order has to say the same.
"""

from __future__ import annotations

from collections import abc
from collections.abc import Iterator, Sequence

from headgate.engine import ActionRole, ActionSpec
from headgate.events import ContainerId
from headgate.flows.grammar.problems import Findings, Position
from headgate.flows.grammar.tree import Entry, Items, Mapping, Tree, texts_of
from headgate.flows.oozie.containers import text_scalar
from headgate.flows.oozie.error_bounds import READS, WRITES, BoundedContainer, ErrorBounds
from headgate.flows.oozie.steps import ImportedStep
from headgate.flows.sections.actions.graph import ancestors
from headgate.learning import decided_on

LEARNED = "learned"
"""The section of a dataflow file in which outputs are bounded."""


class BoundedSteps:
    """What the ``error-bounds`` of a workflow's actions say together.

    Args:
        findings: of the workflow itself, which is not inside of another.
    """

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._declared: dict[str, tuple[ErrorBounds, Findings]] = {}
        self._outputs: dict[str, tuple[BoundedContainer, Findings]] = {}

    @property
    def written(self) -> frozenset[str]:
        """The containers that steps write."""
        return frozenset(name for bounds, _ in self._declared.values() for name in bounds.writes)

    def add(self, step: str, bounds: ErrorBounds, findings: Findings) -> None:
        """Take what a step reads and writes; note a container that is bounded a second time."""
        self._declared[step] = bounds, findings
        for one in bounds.bounded:
            first = self._outputs.setdefault(one.name, (one, findings))
            if first[0] is not one:
                findings.error(
                    one.at,
                    f"`{one.name}` is bounded for the second time; the first is on "
                    f"{self._place(first[0].at, first[1])}",
                    "keep one of them, at the action that writes it last",
                )

    def section(self) -> Mapping | None:
        """Return the section ``learned``; None where no container has an error."""
        if not self._outputs:
            for bounds, findings in list(self._declared.values())[:1]:
                findings.warning(
                    bounds.at,
                    "no container of the workflow has a `max-error`, so that nothing is learned",
                    'bound what people read: `<column … max-error="0.05"/>` in `<writes>`',
                )
            return None
        at = next(iter(self._outputs.values()))[0].at
        outputs = {
            name: Entry(text_scalar(name, one.at), one.error)
            for name, (one, _) in self._outputs.items()
        }
        return Mapping({"outputs": Entry(text_scalar("outputs", at), Mapping(outputs, at))}, at)

    def ordered(
        self, steps: Sequence[ImportedStep], actions: abc.Mapping[str, Entry]
    ) -> dict[str, Entry]:
        """Return the actions, those that are decided on after those whose output they read.

        Where that is another order than the workflow's, it is noted as an error.

        Args:
            steps: all of the workflow.
            actions: of the dataflow file, by name.
        """
        specs = tuple(self._spec(name, entry.value) for name, entry in actions.items())
        decided = decided_on(specs, tuple(self._outputs))
        writers: dict[str, list[str]] = {}
        for spec in specs:
            for container in spec.writes:
                writers.setdefault(container, []).append(spec.name)
        after = {step.name: step.after for step in steps}
        found = dict(actions)
        for step in steps:
            if step.name not in decided:
                continue
            self._check_qod(step, specs)
            self._check_writers(step, writers, decided)
            before = self._before(step, writers, after)
            tree = found[step.name].value
            assert isinstance(tree, Mapping)  # noqa: S101 -- an action is one
            at = step.action.at
            names = Items(tuple(text_scalar(name, at) for name in after if name in before), at)
            changed = {**tree.entries, "after": Entry(text_scalar("after", at), names)}
            found[step.name] = Entry(found[step.name].key, Mapping(changed, tree.at))
        return found

    def _spec(self, name: str, tree: Tree) -> ActionSpec:
        fed = tree.get("input") if isinstance(tree, Mapping) else None
        if isinstance(fed, Items):
            into = tuple(map(ContainerId, texts_of(fed)))
            return ActionSpec(name, ActionRole.INPUT, writes=into)
        if name not in self._declared:
            return ActionSpec(name)
        bounds, _ = self._declared[name]
        return ActionSpec(
            name,
            reads=tuple(map(ContainerId, bounds.reads)),
            writes=tuple(map(ContainerId, bounds.writes)),
        )

    def _check_qod(self, step: ImportedStep, specs: tuple[ActionSpec, ...]) -> None:
        qod = step.action.qod
        if qod is None:
            return
        for name, (output, findings) in self._outputs.items():
            if step.name in decided_on(specs, (name,)):
                step.findings.error(
                    qod.at,
                    f"`{step.name}` has a `qod`, and leads to `{name}`, whose bound on "
                    f"{self._place(output.at, findings)} decides when it runs",
                    "remove this `qod`, or the `max-error` there",
                )
                return

    def _check_writers(
        self,
        step: ImportedStep,
        writers: abc.Mapping[str, list[str]],
        decided: tuple[str, ...],
    ) -> None:
        bounds, findings = self._declared[step.name]
        for container in bounds.writes:
            first = next(name for name in writers[container] if name in decided)
            if first != step.name:
                place = self._place(self._declared[first][0].at, self._declared[first][1])
                findings.error(
                    bounds.at,
                    f"`{step.name}` writes `{container}`, which `{first}` on {place} writes too",
                    "name in `<writes>` of each the columns or rows that only this action writes",
                )

    def _before(
        self,
        step: ImportedStep,
        writers: abc.Mapping[str, list[str]],
        after: abc.Mapping[str, tuple[str, ...]],
    ) -> frozenset[str]:
        """Return those whose output a step reads; note where the workflow has another order."""
        bounds, findings = self._declared[step.name]
        read = {
            name: container
            for container in bounds.reads
            for name in writers.get(container, ())
            if name != step.name
        }
        earlier = ancestors(step.name, after)
        for name in sorted(read.keys() - earlier):
            findings.error(
                bounds.at,
                f"`{step.name}` reads `{read[name]}`, which `{name}` writes, and does not come "
                "after it",
                f"lead the workflow from `{name}` to `{step.name}`",
            )
        implied = {one for name in read for one in (name, *ancestors(name, after))}
        for name in step.after:
            if name not in implied:
                findings.error(
                    bounds.at,
                    f"`{step.name}` comes after `{name}` and reads nothing that it writes: where "
                    "that does not run nobody would ask about it",
                    f"name the same container in `<writes>` of `{name}` and in `<reads>` of "
                    f"`{step.name}`, or import with `--input {name}` if something outside runs it",
                )
        if not step.after and not set(bounds.reads) - set(bounds.writes):
            findings.error(
                bounds.at,
                f"`{step.name}` leads to a bounded container and reads nothing, so that nothing "
                "can be predicted",
                f"add `<reads>`, or import with `--input {step.name}` if something outside runs it",
            )
        return frozenset(read)

    def _place(self, at: Position, findings: Findings) -> str:
        inner = "" if findings is self._findings else f" of {findings.file}"
        return f"line {at.line}{inner}"


def associated(bounds: ErrorBounds) -> Iterator[tuple[str, Tree]]:
    """Yield the keys ``reads`` and ``writes`` of an action in a dataflow file."""
    for key, names in ((READS, bounds.reads), (WRITES, bounds.writes)):
        if names:
            yield key, Items(tuple(text_scalar(name, bounds.at) for name in names), bounds.at)
