"""The kinds of runnables, by name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from headgate.engine.spec.dataflow import SpecificationError
from headgate.engine.spec.stages import ActionFlows, RunnableSpec
from headgate.engine.stages.runnables.alignment import Aligned
from headgate.engine.stages.runnables.lag import Lag
from headgate.engine.stages.runnables.lookup import Lookup
from headgate.engine.stages.runnables.preference import Prefer
from headgate.engine.stages.runnables.presence import RunnableAll, RunnableAny
from headgate.engine.stages.runnables.python import PythonRunnable
from headgate.engine.stages.runnables.runnable import Runnable

Maker = Callable[[ActionFlows, Collection[str]], Runnable | str]
"""Makes the runnable of a stage, given which of its flows come from a loop; or says what is wrong.
"""


def _without_setting(runnable: Callable[[], Runnable]) -> Maker:
    def make(stage: ActionFlows, looped: Collection[str]) -> Runnable | str:  # noqa: ARG001 -- as all
        setting = stage.runnable.setting
        return runnable() if setting is None else f"takes no setting, not {setting!r}"

    return make


def _prefer(stage: ActionFlows, looped: Collection[str]) -> Runnable | str:  # noqa: ARG001 -- as all
    setting = stage.runnable.setting
    if not isinstance(setting, dict) or setting.keys() != stage.inputs.keys():
        names = ", ".join(stage.inputs)
        return f"needs a number of turns for each input flow ({names}), not {setting!r}"
    if any(turns < 1 for turns in setting.values()):
        return f"has a flow without turns, which would never be read: {setting!r}"
    return Prefer(setting)


def _lag(stage: ActionFlows, looped: Collection[str]) -> Runnable | str:
    setting = stage.runnable.setting
    if isinstance(setting, int):
        if not looped:
            return f"of {setting} is for flows of a loop, and none comes back; name the flow"
        setting = {name: setting for name in stage.inputs if name in looped}
    if not isinstance(setting, dict) or not setting or not setting.keys() <= stage.inputs.keys():
        return f"needs a number of runs, or one for some of its input flows, not {setting!r}"
    if any(lag < 1 for lag in setting.values()):
        return f"has a flow that is not behind, for which the lag must be 1 or more: {setting!r}"
    if setting.keys() == stage.inputs.keys():
        return "has only flows that are behind: then nothing says how often it runs"
    return Lag(setting)


def _lookup(stage: ActionFlows, looped: Collection[str]) -> Runnable | str:  # noqa: ARG001 -- as all
    tables = stage.runnable.setting
    if not isinstance(tables, tuple) or not tables or not set(tables) <= stage.inputs.keys():
        names = ", ".join(stage.inputs)
        return f"needs some of the input flows ({names}), not {tables!r}"
    if set(tables) == stage.inputs.keys():
        return "has only tables to look things up in: then nothing says how often it runs"
    return Lookup(tables)


def _python(stage: ActionFlows, looped: Collection[str]) -> Runnable | str:  # noqa: ARG001 -- as all
    setting = stage.runnable.setting
    if not isinstance(setting, str) or not setting.partition(":")[2]:
        return f"needs a function, as `module:name`, not {setting!r}"
    return PythonRunnable(setting)


MAKERS: Final[Mapping[str, Maker]] = {
    "all": _without_setting(RunnableAll),
    "any": _without_setting(RunnableAny),
    "aligned": _without_setting(Aligned),
    "prefer": _prefer,
    "lag": _lag,
    "lookup": _lookup,
    "python": _python,
}


def make_runnable(place: str, stage: ActionFlows, looped: Collection[str] = ()) -> Runnable:
    """Return the runnable of a stage.

    Args:
        place: of the stage, in words, for what is wrong with it.
        stage: whose it is.
        looped: those of its input flows that depend on what it makes itself.

    Raises:
        SpecificationError: there is none of this name, or its setting is not in order.
    """
    spec: RunnableSpec = stage.runnable
    maker = MAKERS.get(spec.kind)
    if maker is None:
        raise SpecificationError(
            (f"{place}: there is no runnable {spec.kind!r}; take one of {', '.join(MAKERS)}",)
        )
    if not stage.inputs and spec.kind != "all":
        raise SpecificationError(
            (f"{place}: runnable {spec.kind!r} needs input flows; name them, or drop it",)
        )
    made = maker(stage, looped)
    if isinstance(made, str):
        raise SpecificationError((f"{place}: runnable {spec.kind!r} {made}",))
    return made
