"""From a dataflow file to a dataflow, or to everything that is wrong with the file."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from headgate.engine import (
    ActionRole,
    ActionSpec,
    Bound,
    DataflowSpec,
    OnUndecodable,
    SignificanceSpec,
    WatchedContainer,
)
from headgate.events import KeyForm
from headgate.flows.dataflow import DEFAULT_CONCURRENCY, Dataflow, OozieOrigin, WaveEnd, WaveSpec
from headgate.flows.grammar.matching import matched
from headgate.flows.grammar.problems import (
    NAME_RULE,
    DataflowErrors,
    Findings,
    Position,
    suggestion,
)
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.text import read_text
from headgate.flows.grammar.tree import (
    MAX_CHARACTERS,
    Entry,
    Items,
    Mapping,
    Scalar,
    Tree,
    read_tree,
    spark_settings,
    texts_of,
)
from headgate.flows.grammar.values import NAME
from headgate.flows.keys import DATAFLOW
from headgate.flows.launchers import Launcher, SessionLauncher
from headgate.flows.sections.actions import ActionReader, Declared, read_depends
from headgate.flows.sections.adjustment import read_adjustment
from headgate.flows.sections.bounds import check_codec, overridden
from headgate.flows.sections.graph import ancestors, cycles, implied_predecessors
from headgate.flows.sections.launching import read_launcher
from headgate.flows.sections.learned import check_learned, read_learned
from headgate.flows.sections.modes import Deletes, Mode, read_mode
from headgate.flows.sections.outside import OutsideChecker, read_outside
from headgate.flows.sections.places import overlap, read_container, read_keys, read_undecodable
from headgate.flows.sections.significance import read_significance
from headgate.flows.sections.stages import check_stages, output_flows, read_on_change
from headgate.flows.sections.triggers import check_trigger


def load_dataflow(
    path: Path | str, profile: str | None = None, name: str | None = None
) -> Dataflow:
    """Return the dataflow in a YAML file, with the bounds of one of its profiles if one is named.

    ``name`` is that of the instance, where it is another than the file's.

    Raises:
        DataflowErrors: the file can't be read or used; every problem found is in it.
    """
    text = read_text(path, MAX_CHARACTERS)
    return parse_dataflow(text, str(path), profile, name)


def parse_dataflow(
    text: str, file: str, profile: str | None = None, name: str | None = None
) -> Dataflow:
    """Return the dataflow in a YAML text; ``file`` is its name in messages.

    ``name`` is that of the instance, where it is another than the file's: one description serves
    several users, each with bounds of their own.

    Raises:
        DataflowErrors: the text can't be used; every problem found is in it.
    """
    findings = Findings(file)
    tree = read_tree(text, findings)
    dataflow = None if tree is None else _built(tree, text, file, profile, findings)
    if name is not None and not re.fullmatch(NAME, name):
        findings.error(
            Position(1, 1),
            f"`{name}` can't name a dataflow",
            NAME_RULE,
        )
    if dataflow is None or findings.failed:
        raise DataflowErrors(findings.problems)
    spec = dataflow.spec if name is None else msgspec.structs.replace(dataflow.spec, name=name)
    return msgspec.structs.replace(dataflow, spec=spec, warnings=findings.problems)


def check_tree(tree: Tree, findings: Findings) -> None:
    """Note what is wrong with the tree of a dataflow file that is still to be written."""
    _built(tree, "", "", None, findings)


def _built(
    tree: Tree, text: str, file: str, profile: str | None, findings: Findings
) -> Dataflow | None:
    fitting = matched(tree, DATAFLOW, findings)
    if not isinstance(fitting, Mapping):
        return None
    named = _names(tree, "containers") | _names(tree, "files") | _names(tree, "topics")
    declared = Declared(named, _names(tree, "actions"), _flows(tree))
    return _Builder(fitting, declared, findings).dataflow(text, file, profile)


def _places(spec: DataflowSpec, launchers: dict[str, Launcher], concurrency: int) -> int | None:
    """Return how many runs can be under way, as far as its stages are to wait for their turn."""
    if all(action.stage is None for action in spec.actions):
        return None
    in_session = all(isinstance(one, SessionLauncher) for one in launchers.values())
    return 1 if in_session else concurrency


def _names(tree: Tree | None, key: str) -> frozenset[str]:
    section = tree.get(key) if isinstance(tree, Mapping) else None
    return frozenset(section.entries if isinstance(section, Mapping) else ())


def _flows(tree: Tree | None) -> dict[str, tuple[str, ...]]:
    section = tree.get("actions") if isinstance(tree, Mapping) else None
    entries = section.entries if isinstance(section, Mapping) else {}
    return {name: output_flows(entry.value) for name, entry in entries.items()}


class _Builder:
    """Builds from a matched tree; goes on after errors in order to find the others."""

    def __init__(self, tree: Mapping, declared: Declared, findings: Findings) -> None:
        self._tree = tree
        self._findings = findings
        self._containers = {
            name: read_container(name, entry.value, findings)
            for name, entry in self._section("containers")
        }
        self._outside = read_outside(tree, findings)
        self._containers |= self._outside.containers
        self._action_trees = {
            name: entry.value
            for name, entry in self._section("actions")
            if isinstance(entry.value, Mapping)
        }
        self._reader = ActionReader(self._containers, declared, findings)

    def dataflow(self, text: str, file: str, profile: str | None) -> Dataflow:
        actions = self._actions()
        OutsideChecker(self._outside, self._action_trees, self._findings).check(actions)
        self._check_graph(actions)
        for action in actions.values():
            self._check_action(action)
        if not self._findings.failed:
            # What seems unused or unwritten in a file with errors often is so because of them.
            self._warn_of_unused(actions)
        chosen = self._with_profile(actions, profile)
        significance = self._tree.get("significance")
        sought: SignificanceSpec | None = None
        if isinstance(significance, Mapping) and not self._findings.failed:
            chosen, sought = read_significance(
                significance, chosen, self._containers, self._findings
            )
        bounded = self._tree.get("learned")
        if isinstance(bounded, Mapping):
            if significance is not None:
                self._findings.error(
                    self._tree.entries["learned"].key.at,
                    "`learned` and `significance` both decide when the same steps run",
                    "keep one of them",
                )
            chosen = read_learned(
                bounded, chosen, self._action_trees, self._containers, self._findings
            )
        self._check_decided_by_values()
        name = self._tree.get("name")
        pool = self._tree.get("spark_pool")
        state = self._tree.get("state")
        mode, scans, feeders = read_mode(self._tree, self._findings)
        spec = DataflowSpec(
            name.text if isinstance(name, Scalar) else "",
            tuple(self._containers.values()),
            tuple(chosen.values()),
            read_adjustment(self._tree.get("adjustment"), self._findings),
            sought,
            feeders if mode is Mode.ISOLATION else None,
            scans.deletes is Deletes.COUNTED,
        )
        self._check_triggers(spec)
        if not self._findings.failed:
            check_stages(spec, self._action_trees, self._findings)
        if isinstance(bounded, Mapping) and not self._findings.failed:
            check_learned(spec, bounded, self._findings)
        launchers = dict(self._launchers())
        concurrency = self._number("concurrency", DEFAULT_CONCURRENCY)
        return Dataflow(
            msgspec.structs.replace(spec, places=_places(spec, launchers, concurrency)),
            self._waves(),
            launchers,
            dict(spark_settings(self._tree.get("spark"))),
            text,
            file,
            profile,
            tuple(name for name, _ in self._section("profiles")),
            dict(self._descriptions()),
            self._oozie(),
            mode,
            scans,
            concurrency=concurrency,
            priority=self._number("priority", 0),
            python_path=self._python_path(),
            on_undecodable=dict(self._undecodable()),
            keys=dict(self._keys()),
            spark_pool=pool.text if isinstance(pool, Scalar) else "",
            state=state.text if isinstance(state, Scalar) else "",
            on_change={
                action.name: read_on_change(self._action_trees[action.name])
                for action in spec.actions
                if action.stage is not None
            },
            depends=dict(self._depends()),
            files=self._outside.files,
            topics=self._outside.topics,
        )

    def _depends(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for name, tree in self._action_trees.items():
            files = read_depends(tree, frozenset(self._action_trees), self._findings)
            if files:
                yield name, files

    def _check_decided_by_values(self) -> None:
        for key in ("significance", "learned"):
            for section in self._outside.sections if key in self._tree.entries else ():
                self._findings.error(
                    self._tree.entries[key].key.at,
                    f"`{key}` decides by the values of containers, and `{section}` have none",
                    f"keep one of them; {section} may be those of a dataflow of its own",
                )

    def _section(self, key: str) -> tuple[tuple[str, Entry], ...]:
        section = self._tree.get(key)
        return tuple(section.entries.items()) if isinstance(section, Mapping) else ()

    def _actions(self) -> dict[str, ActionSpec]:
        actions = {
            name: self._reader.action(name, tree) for name, tree in self._action_trees.items()
        }
        return {
            name: action
            if action.role is ActionRole.INPUT or self._action_trees[name].get("after") is not None
            else msgspec.structs.replace(action, after=implied_predecessors(action, actions))
            for name, action in actions.items()
        }

    def _check_graph(self, actions: dict[str, ActionSpec]) -> None:
        for path in cycles({name: action.after for name, action in actions.items()}):
            closing = self._action_trees[path[1]]
            written = closing.entries.get("after")
            what = " → ".join(f"`{name}`" for name in path)
            if written is not None:
                cure = f"remove `{path[0]}` from `after` of `{path[1]}`, or another of these steps"
            else:
                cure = (
                    f"`{path[1]}` comes after `{path[0]}` because it reads what that writes: "
                    f"say with `after:` which actions really come first"
                )
            at = written.value.at if written else closing.at
            if isinstance(written, Entry) and isinstance(written.value, Items):
                at = next(
                    (
                        one.at
                        for one in written.value.values
                        if isinstance(one, Scalar) and one.text == path[0]
                    ),
                    at,
                )
            self._findings.error(at, f"the actions go round in a circle: {what}", cure)

    def _check_triggers(self, spec: DataflowSpec) -> None:
        if self._findings.failed:
            return
        for action in spec.actions:
            if action.trigger is None or "trigger" not in self._action_trees[action.name].entries:
                continue
            at = self._action_trees[action.name].entries["trigger"].key.at
            if spec.significance is not None and action.name in spec.significance.actions:
                self._findings.error(
                    at,
                    f"`significance` searches for what `{action.name}` waits for",
                    "remove the trigger, or name an output that the action does not lead to",
                )
            else:
                check_trigger(spec, action, at, self._findings)

    def _check_action(self, action: ActionSpec) -> None:
        tree = self._action_trees[action.name]
        when = tree.get("when")
        if action.role is ActionRole.INPUT:
            return
        if when is None:
            fed = action.stage is not None and bool(action.stage.inputs)
            needless = {"combine", "own"} if fed else {"combine", "evaluate", "own"}
            for key in tree.entries:
                if key in needless and action.trigger is None:
                    self._findings.error(
                        tree.entries[key].key.at,
                        f"`{key}` says nothing without bounds",
                        "add `when:` with a bound, or remove it",
                    )
            if not action.after and not fed and not self._findings.failed:
                nouns = {name: self._outside.noun(name) for name in action.reads}
                read, noun = next(((n, one) for n, one in nouns.items() if one), ("", None))
                bound = f"`when: {{{read}: {{time: 5 min}}}}`" if read else "`when:`"
                why = f"; that {noun.come} starts nothing" if noun else ""
                self._findings.warning(
                    tree.at,
                    f"`{action.name}` has neither predecessors nor bounds, so nothing starts it"
                    f"{why}",
                    f"add `after:` or {bound}, or start it by hand with `headgate flow run`",
                )
        evaluation = action.evaluation
        if evaluation is not None and evaluation.action_end and not action.after:
            self._findings.error(
                tree.entries["evaluate"].value.at,
                f"no action precedes `{action.name}`, so none ever ends",
                "write `write` or `every 30 s`, or add `after:`",
            )

    def _warn_of_unwritten(self, action: ActionSpec, actions: dict[str, ActionSpec]) -> None:
        when = self._action_trees[action.name].get("when")
        if not isinstance(when, Mapping) or self._tree.get("oozie") is not None:
            return  # a workflow doesn't say what its actions write
        written = [
            self._containers[name].container
            for other in actions.values()
            if other.name != action.name or action.own
            for name in other.writes
        ]
        for bound in action.bounds:
            if self._outside.noun(bound.container) is not None:
                continue
            watched = self._containers[bound.container].container
            if not any(overlap(watched, one) for one in written):
                self._findings.warning(
                    when.entries[bound.name].key.at,
                    f"bound `{bound.name}`: no other action writes `{bound.container}`",
                    "name its writer: `writes:` on a step, or an action with `input:` if it is fed "
                    "from outside",
                )

    def _warn_of_unordered(self, action: ActionSpec, actions: dict[str, ActionSpec]) -> None:
        tree = self._action_trees[action.name]
        if tree.get("after") is not None:
            return
        before = ancestors(action.name, {name: one.after for name, one in actions.items()})
        for other in actions.values():
            if other.name == action.name or other.name in before:
                continue
            for read, written in itertools.product(action.reads, other.writes):
                if overlap(self._containers[read].container, self._containers[written].container):
                    self._findings.warning(
                        tree.at,
                        f"`{action.name}` reads `{read}`, of which `{other.name}` writes a part "
                        f"as `{written}`, but doesn't come after it",
                        "say with `after:` which actions come first, `[]` if none",
                    )

    def _warn_of_unused(self, actions: dict[str, ActionSpec]) -> None:
        for action in actions.values():
            self._warn_of_unwritten(action, actions)
            self._warn_of_unordered(action, actions)
        used = {name for action in actions.values() for name in (*action.reads, *action.writes)}
        for name, entry in self._section("containers"):
            if name not in used:
                self._findings.warning(
                    entry.key.at, f"no action uses container `{name}`", "remove it, or use it"
                )

    def _with_profile(
        self, actions: dict[str, ActionSpec], profile: str | None
    ) -> dict[str, ActionSpec]:
        chosen = actions
        for name, entry in self._section("profiles"):
            if isinstance(entry.value, Mapping):
                changed = self._overridden(actions, entry.value)
                chosen = changed if name == profile else chosen
        known = [name for name, _ in self._section("profiles")]
        if profile is not None and profile not in known:
            entry_of_profiles = self._tree.entries.get("profiles")
            at = entry_of_profiles.key.at if entry_of_profiles else self._tree.at
            self._findings.error(
                at, f"there is no profile `{profile}`", suggestion(profile, known, "profile")
            )
        return chosen

    def _overridden(self, actions: dict[str, ActionSpec], tree: Mapping) -> dict[str, ActionSpec]:
        changed = dict(actions)
        for name, entry in tree.entries.items():
            if name not in actions:
                self._findings.error(
                    entry.key.at,
                    f"there is no action `{name}`",
                    suggestion(name, actions, "action"),
                )
            elif isinstance(entry.value, Mapping):
                bounds = self._overridden_bounds(actions[name], entry.value)
                changed[name] = msgspec.structs.replace(actions[name], bounds=bounds)
        return changed

    def _overridden_bounds(self, action: ActionSpec, tree: Mapping) -> tuple[Bound, ...]:
        bounds = {bound.name: bound for bound in action.bounds}
        for name, entry in tree.entries.items():
            if name not in bounds:
                self._findings.error(
                    entry.key.at,
                    f"action `{action.name}` has no bound `{name}`",
                    suggestion(name, bounds, "bound"),
                )
            elif isinstance(entry.value, Mapping):
                bounds[name] = overridden(bounds[name], entry.value, self._findings)
                codec = self._watched(bounds[name]).codec
                check_codec(bounds[name], codec, entry.key.at, self._findings)
        return tuple(bounds.values())

    def _watched(self, bound: Bound) -> WatchedContainer:
        return self._containers[bound.container]

    def _waves(self) -> WaveSpec:
        written = self._tree.get("waves")
        if not isinstance(written, Scalar) or written.text == "mark":
            return WaveSpec()
        end, _, duration = written.text.partition(" ")
        return WaveSpec(WaveEnd(end), duration_seconds(duration))

    def _python_path(self) -> tuple[str, ...]:
        match self._tree.get("python_path"):
            case Scalar(text=directory):
                return (directory,)
            case Items() as items:
                return texts_of(items)
            case _:
                return (".",)

    def _launchers(self) -> Iterator[tuple[str, Launcher]]:
        python_path = self._python_path()
        spark = dict(spark_settings(self._tree.get("spark")))
        for name, tree in self._action_trees.items():
            launcher = read_launcher(tree, python_path, spark, self._findings)
            if launcher is not None:
                yield name, launcher

    def _undecodable(self) -> Iterator[tuple[str, OnUndecodable]]:
        for name, entry in self._section("containers"):
            policy = read_undecodable(entry.value)
            if policy is not None:
                yield name, policy

    def _keys(self) -> Iterator[tuple[str, KeyForm]]:
        for name, entry in self._section("containers"):
            keys = read_keys(entry.value)
            if keys is not None:
                yield name, keys

    def _number(self, key: str, default: int) -> int:
        match self._tree.get(key):
            case Scalar(value=int() as number):
                return number
            case _:
                return default

    def _oozie(self) -> OozieOrigin | None:
        section = dict(self._section("oozie"))
        if "workflow" not in section or not isinstance(section["workflow"].value, Scalar):
            return None
        decisions = section.get("decisions")
        taken = (
            decisions.value.entries if decisions and isinstance(decisions.value, Mapping) else {}
        )
        return OozieOrigin(
            section["workflow"].value.text,
            {
                name: entry.value.text
                for name, entry in taken.items()
                if isinstance(entry.value, Scalar)
            },
        )

    def _descriptions(self) -> Iterator[tuple[str, str]]:
        for name, tree in (("", self._tree), *self._action_trees.items()):
            written = tree.get("description")
            if isinstance(written, Scalar):
                yield name, written.text
