"""What runs are started with: paths, sessions, and texts that are short enough to keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import structs

from headgate.agent.state.sealed import Definition
from headgate.engine import FilesSpec, Launch, TopicSpec
from headgate.flows import Dataflow, SessionLauncher, container_identities, session_roots
from headgate.spark import StageRequest, StartSession, decode_result


def shortened(text: str, most: int) -> str:
    """Return a text, of one that is longer than ``most`` characters the beginning and the end."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters) … {text[-half:]}"


def session_start(dataflow: Dataflow, definition: Definition) -> StartSession | None:
    """Return what a dataflow's Spark session is started with; None where nothing runs in one."""
    launchers = [one for one in dataflow.launchers.values() if isinstance(one, SessionLauncher)]
    if definition.shadow or not launchers:
        return None
    roots = session_roots(dataflow, definition.directory)
    return StartSession(dataflow.spark, roots, dataflow.spark_pool)


def python_path(relative: Iterable[str], definition: Definition) -> tuple[str, ...]:
    """Return directories of a dataflow file from the root: they start where the file was."""
    base = Path(definition.directory)
    return tuple(str(base / Path(part).expanduser()) for part in relative)


def depended_files(dataflow: Dataflow, definition: Definition, action: str) -> dict[str, str]:
    """Return the files that an action depends on: paths from the root, by path as written."""
    base = Path(definition.directory)
    files = dataflow.actions[action].depends
    return {path: str(base / Path(path).expanduser()) for path in files}


def stage_request(
    dataflow: Dataflow,
    definition: Definition,
    launch: Launch,
    needed: Iterable[str],
    stages: str,
    results: Mapping[str, str] | None = None,
) -> StageRequest | None:
    """Return what an attempt has to know besides where its action is a stage; None otherwise.

    Args:
        dataflow: the action's.
        definition: where its file was.
        launch: the attempt.
        needed: names of increments of the action that others may still read.
        stages: where stages keep their files whose dataflow does not say it.
        results: what the last committed run of each action named, by action; those of stages count.
    """
    action = next((a for a in dataflow.spec.actions if a.name == launch.action), None)
    stage = None if action is None else action.stage
    if action is None or stage is None:
        return None
    known: dict[str, FilesSpec | TopicSpec] = {
        **files_of(dataflow, definition),
        **dataflow.topics,
    }
    taken = {flow: part.read for flow, part in launch.work.taken.items()}
    return StageRequest(
        stage_location(dataflow, definition, stages),
        {flow: tuple(one.name for one in taken.get(flow, ())) for flow in stage.inputs},
        stage.outputs,
        tuple(sorted(needed)),
        dataflow.actions[launch.action].on_change,
        launch.work.purpose,
        {name: known[name] for name in action.reads if name in known},
        {name: known[name] for name in action.writes if name in known},
        container_identities(dataflow),
        _other_writers(dataflow, launch.action, results or {}),
    )


def _other_writers(dataflow: Dataflow, action: str, results: Mapping[str, str]) -> dict[str, str]:
    """Return the manifests of all other stages that write to containers, by stage."""
    found = {}
    for other in dataflow.spec.actions:
        result = decode_result(results.get(other.name, ""))
        if other.name != action and other.writes and result is not None:
            found[other.name] = result.manifest
    return found


def files_of(dataflow: Dataflow, definition: Definition) -> dict[str, FilesSpec]:
    """Return the files that a dataflow names: at a URI, or at a path from the root."""
    return {
        name: structs.replace(files, location=_from_root(files.location, definition))
        for name, files in dataflow.files.items()
    }


def stage_location(dataflow: Dataflow, definition: Definition, stages: str) -> str:
    """Return where the stages of a dataflow keep their files: a URI, or a path from the root.

    Args:
        dataflow: whose stages they are.
        definition: where its file was.
        stages: where stages keep their files whose dataflow does not say it.
    """
    return _from_root(dataflow.state or stages, definition)


def _from_root(location: str, definition: Definition) -> str:
    if "://" in location:
        return location
    return str(Path(definition.directory) / Path(location).expanduser())
