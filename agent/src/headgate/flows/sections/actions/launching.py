"""What an action runs and by which launcher: keys of an action, and what is read from them."""

from __future__ import annotations

from typing import Any, Final

from headgate.flows.grammar.kinds import ANY_TEXT, Anything, Either, Key, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.tree import Mapping, Scalar, plain_value
from headgate.flows.launchers import KINDS, Launcher, LauncherKind
from headgate.flows.launchers.kind import LaunchSection
from headgate.flows.sections.actions.agent_key import AgentKey
from headgate.flows.sections.running import PYTHON_PATH, SPARK
from headgate.flows.sections.section import Draft

_TARGETS: Final = {target.name: target for kind in KINDS for target in kind.runs}

LAUNCHED: Final = tuple(_TARGETS)
"""Keys of an action of which one says what is run."""

_BY_NAME: Final = tuple(kind.name for kind in KINDS if kind.by_name)
_SHOWN: Final = f"{', '.join(f'`{name}`' for name in _BY_NAME[:-1])} or `{_BY_NAME[-1]}`"
_SETTINGS: Final = {kind.name: kind.settings for kind in KINDS if kind.settings is not None}


def _read(tree: Mapping, draft: Draft) -> Launcher | None:
    """Return how an action is run; None for one that is fed from outside, or in error."""
    target = next((key for key in LAUNCHED if key in tree.entries), None)
    if target is None:
        return None
    kind, settings = _chosen(tree, target, draft.findings)
    plain = plain_value(tree.get("parameters"))
    parameters: dict[str, Any] = plain if isinstance(plain, dict) else {}
    value = tree.entries[target].value
    return kind.read(
        LaunchSection(value, settings, parameters, draft[PYTHON_PATH], draft[SPARK], draft.findings)
    )


def _chosen(
    tree: Mapping, target: str, findings: Findings
) -> tuple[LauncherKind[Launcher], Mapping]:
    """Return the launcher's kind and its settings; the target's default where it does not fit."""
    running = [kind for kind in KINDS if _TARGETS[target] in kind.runs]
    written = tree.get("launcher")
    settings = Mapping({}, tree.at)
    match written:
        case Scalar(text=word):
            name = word
        case Mapping(entries=entries) if entries:
            name, entry = next(iter(entries.items()))
            if isinstance(entry.value, Mapping):
                settings = entry.value
        case _:
            return running[0], settings
    for kind in running:
        if kind.name == name and _can_be_written(kind):
            return kind, settings
    possible = ", ".join(f"`{kind.name}`" for kind in running if _can_be_written(kind))
    findings.error(
        written.at,
        f"launcher `{name}` doesn't run a {target}",
        f"possible for a {target}: {possible}" if possible else "remove it",
    )
    return running[0], settings


def _can_be_written(kind: LauncherKind[Launcher]) -> bool:
    return kind.by_name or kind.settings is not None


LAUNCHER: Final = AgentKey(
    "launcher",
    Key(
        Either(
            f"{', '.join(f'`{name}`' for name in _BY_NAME)}, or one with its settings",
            (
                Single(_SHOWN, words=_BY_NAME),
                RecordOf(
                    "the launcher",
                    _SETTINGS,
                    one_of=tuple(_SETTINGS),
                    cures={"kind": "name the kind itself: `launcher: {submit: {master: yarn}}`"},
                ),
            ),
        ),
        "how it is run; a step or a stage in the warm `session` where nothing is said",
    ),
    _read,
    "its next attempt runs what is said now",
)

LAUNCHING: Final = {
    **{name: target.key for name, target in _TARGETS.items()},
    LAUNCHER.name: LAUNCHER.key,
    "parameters": Key(
        MapOf(Anything(), "parameters by name", ANY_TEXT, "parameter"),
        "handed to what is run as they are",
    ),
}
"""Keys of an action that say what is run, and how."""
