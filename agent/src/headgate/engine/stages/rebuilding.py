"""Which stages are rebuilt together: what a stage has read of another is not kept for ever.

A stage that is rebuilt makes its flows anew from the first row on, so whoever reads them begins
anew with it; and whoever reads flows can begin anew only with those that make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headgate.engine.spec.stages import ActionFlows


class Unrebuildable(Exception):
    """A stage that cannot be rebuilt; says why, and what to do.

    Args:
        words: why, and what to do.
        together: the stages that would have to be rebuilt together.
    """

    def __init__(self, words: str, together: Iterable[str] = ()) -> None:
        super().__init__(words)
        self.together = tuple(together)


def rebuilt_together(
    stage: str, flows: Mapping[str, ActionFlows], *, with_sources: bool
) -> tuple[str, ...]:
    """Return the stages that are rebuilt with one, itself included, makers before their readers.

    Args:
        stage: that is to be rebuilt.
        flows: of all stages of the dataflow, by action.
        with_sources: whether those may be rebuilt that make what it reads.

    Raises:
        Unrebuildable: it reads flows whose makers are not to be rebuilt, or is in a circle.
    """
    readers = _readers(flows)
    found = dict.fromkeys((stage,))
    waiting = [stage]
    while waiting:
        name = waiting.pop()
        makers = {source.action for source in flows[name].inputs.values()}
        for other in (*readers.get(name, ()), *(sorted(makers) if with_sources else ())):
            if other not in found:
                found[other] = None
                waiting.append(other)
    _check_sources(stage, found, flows)
    return _in_order(found, flows)


def _readers(flows: Mapping[str, ActionFlows]) -> dict[str, list[str]]:
    readers: dict[str, list[str]] = {}
    for name, each in flows.items():
        for maker in dict.fromkeys(source.action for source in each.inputs.values()):
            readers.setdefault(maker, []).append(name)
    return readers


def _check_sources(stage: str, found: Iterable[str], flows: Mapping[str, ActionFlows]) -> None:
    rebuilt = set(found)
    for name in found:
        for flow, source in flows[name].inputs.items():
            if source.action not in rebuilt:
                whom = "" if name == stage else f", which reads what `{stage}` makes,"
                raise Unrebuildable(
                    f"`{name}`{whom} has read flow `{flow}` of `{source.action}`, and what was "
                    f"read is not kept: rebuild `{source.action}` too, by `--with-sources`"
                )


def _in_order(found: Iterable[str], flows: Mapping[str, ActionFlows]) -> tuple[str, ...]:
    left = dict.fromkeys(found)
    ordered: list[str] = []
    while left:
        free = [
            name
            for name in left
            if not any(source.action in left for source in flows[name].inputs.values())
        ]
        if not free:
            circle = ", ".join(f"`{name}`" for name in left)
            raise Unrebuildable(
                f"among {circle} stages read each other in a circle, and none can begin: remove "
                "the dataflow and submit it again",
                (*ordered, *left),
            )
        for name in free:
            del left[name]
        ordered += free
    return tuple(ordered)
