"""The stage that people write, which runs as any step does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headgate.incremental.stages.framing import Framing
from headgate.incremental.stages.specification import (
    InputFlow,
    StageSpec,
    StateFlow,
    Translate,
    TranslateStream,
    TranslateTables,
    Types,
    schema_of,
)

if TYPE_CHECKING:
    from headgate.spark import Run


class Stage:
    """A stage of an incremental dataflow: what one of its runs costs is what has changed.

    Args:
        name: of the stage; the files of its state bear it.
        inputs: its input flows.
        outputs: by output flow the columns of its rows, with the names of Arrow's types.
        translate: called once for each group; or else one of the two that follow.
        translate_tables: called with many groups at once, for speed.
        translate_stream: called once for each group, with streams of its rows; a generator of what
            becomes of them. For groups that are larger than memory.
        state: what comes back in the next epoch; nothing where not given.
        version: of the code, as far as it matters to the state: after another one it is asked what
            is to become of a state.
        framing: by output flow, a column or a function of a row whose values (whole numbers, text,
            days) are framing keys: rows that have one in common are one increment, which is read
            once one of another key is there. Left out, what an epoch makes is one increment.

    Raises:
        StageError: it is given no flow or no translation, several translations, a framing of what
            is no key, or rows that cannot be matched.
    """

    def __init__(
        self,
        name: str,
        *,
        inputs: Mapping[str, InputFlow],
        outputs: Mapping[str, Types],
        translate: Translate | None = None,
        translate_tables: TranslateTables | None = None,
        translate_stream: TranslateStream | None = None,
        state: StateFlow | None = None,
        version: str = "1",
        framing: Mapping[str, Framing] | None = None,
    ) -> None:
        columns = {flow: schema_of(types) for flow, types in outputs.items()}
        self.spec = StageSpec(
            name,
            dict(inputs),
            columns,
            translate,
            translate_tables,
            translate_stream,
            state,
            version,
            dict(framing or {}),
        )

    def __call__(self, run: Run) -> None:
        """Translate what has come, and have the run's commit make it the state."""
        from headgate.incremental.running import run_stage

        run_stage(self.spec, run)
