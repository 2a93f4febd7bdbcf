"""The flows of an action that is a stage: what it reads of others, what others may read of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from headgate.engine import (
    DEFAULT_BACKLOG,
    ActionFlows,
    ActionSpec,
    DataflowSpec,
    FlowId,
    OnChange,
    RunnableSpec,
    SpecificationError,
    make_policy,
)
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.kinds import Either, Key, MapOf, Numbers, RecordOf, Single
from headgate.flows.grammar.problems import Findings, suggestion
from headgate.flows.grammar.tree import Scalar, Tree, scalars_of
from headgate.flows.grammar.values import NAME, names_value
from headgate.flows.launchers.step import ENTRY
from headgate.flows.sections.actions.agent_key import AgentKey
from headgate.flows.sections.actions.graph import ancestors
from headgate.flows.sections.section import Draft

STAGE: Final = "stage"
"""The key of an action that makes it a stage."""

LONGEST_OUTPUTS: Final = 400
"""Characters of a stage's output flows, with what their rows take: a commit names 8,192, of which
the manifest's name may take some 450, and the rest is for framing keys."""
_ROWS_CHARACTERS: Final = 13
"""With each flow: a separator, an equals sign, and rows of 11 digits."""

_TURNS = Numbers(above=0, at_most=1_000_000, whole=True)
_RUNNABLE_WORDS: Final = ("all", "any", "aligned")


def _read_on_change(tree: yaml_tree.Mapping, _: Draft) -> OnChange:
    written = tree.get("on_change")
    return OnChange(written.text) if isinstance(written, Scalar) else OnChange.REFUSE


ON_CHANGE: Final = AgentKey(
    "on_change",
    Key(
        Single("`rebuild` or `keep`", words=(OnChange.REBUILD, OnChange.KEEP)),
        "what becomes of a state that another version of the stage wrote: made anew, or kept; its "
        "runs fail where nothing is said",
    ),
    _read_on_change,
    "`on_change`, from its next attempt",
)

STAGE_KEYS: Final = {
    "in": Key(
        MapOf(
            Single(
                "`action.flow`",
                pattern=rf"{NAME}\.{NAME}",
                rule="write the action that makes the flow, a dot, the flow: `pages.links`",
            ),
            "flows by the name that the stage has for them",
            NAME,
            "input flow",
            at_least=1,
        ),
        "input flows that other stages make: each `action.flow`, by the stage's own name for it",
    ),
    "out": Key(
        names_value("an output flow", "output flows"),
        "output flows that other stages may read; each run makes an increment of each",
    ),
    "runnable": Key(
        Either(
            "`all`, `any`, `aligned`, or `prefer`, `lag`, `lookup` or `python` with their settings",
            (
                Single("`all`, `any` or `aligned`", words=_RUNNABLE_WORDS),
                RecordOf(
                    "the runnable",
                    {
                        "prefer": Key(
                            MapOf(
                                Single("a number of turns above 0", numbers=_TURNS),
                                "numbers of turns by input flow",
                                NAME,
                                "input flow",
                                at_least=1,
                            ),
                            "how many turns each input flow has before the next one's",
                        ),
                        "lag": Key(
                            Either(
                                "a number of runs above 0, or one for some input flows",
                                (
                                    Single("a number of runs above 0", numbers=_TURNS),
                                    MapOf(
                                        Single("a number of runs above 0", numbers=_TURNS),
                                        "numbers of runs by input flow",
                                        NAME,
                                        "input flow",
                                        at_least=1,
                                    ),
                                ),
                            ),
                            "by how many runs flows of a loop are behind the others",
                        ),
                        "lookup": Key(
                            names_value("an input flow", "input flows"),
                            "flows of which the newest increment is read in each run and stays",
                        ),
                        "python": Key(
                            Single(
                                "`module:function`",
                                pattern=ENTRY,
                                rule="write the module, a colon, the function that says what is "
                                "read: `stages:turns`",
                            ),
                            "a function of your own, which is told what waits and says what is "
                            "read, what is removed and what it remembers",
                        ),
                    },
                    one_of=("prefer", "lag", "lookup", "python"),
                ),
            ),
        ),
        "which increments a run reads: one of `all` input flows (default), of `any`, of all with "
        "the same key (`aligned`), of one flow in turn (`prefer`), of those of a loop later, of "
        "tables again and again (`lookup`), or what a function of your own says (`python`)",
    ),
    "backlog": Key(
        Single("a number of increments above 0", numbers=_TURNS),
        f"unread increments from which the makers of its input flows are held; {DEFAULT_BACKLOG} "
        "by default",
    ),
    ON_CHANGE.name: ON_CHANGE.key,
}
"""Keys that only an action with ``stage`` has."""

STAGE_NEEDED: Final = tuple((key, STAGE) for key in STAGE_KEYS)


def output_flows(tree: Tree | None) -> tuple[str, ...]:
    """Return the output flows that the tree of an action names, whatever else is in it."""
    written = tree.get("out") if isinstance(tree, yaml_tree.Mapping) else None
    return tuple(one.text for one in scalars_of(written))


def read_stage(
    name: str, tree: yaml_tree.Mapping, flows: Mapping[str, Collection[str]], findings: Findings
) -> ActionFlows | None:
    """Return the flows of a matched action; None for one that is no stage.

    Args:
        name: of the action.
        tree: of the action.
        flows: the output flows of all actions of the file.
        findings: where errors go.
    """
    if STAGE not in tree.entries:
        return None
    backlog = tree.get("backlog")
    return ActionFlows(
        dict(_inputs(tree, flows, findings)),
        _outputs(name, tree, findings),
        _runnable(tree.get("runnable")),
        backlog.value
        if isinstance(backlog, Scalar) and isinstance(backlog.value, int)
        else DEFAULT_BACKLOG,
    )


def _inputs(
    tree: yaml_tree.Mapping, flows: Mapping[str, Collection[str]], findings: Findings
) -> Iterator[tuple[str, FlowId]]:
    read = {one.text for one in scalars_of(tree.get("reads"))}
    written = tree.get("in")
    for flow, entry in written.entries.items() if isinstance(written, yaml_tree.Mapping) else ():
        if flow in read:
            findings.error(
                entry.key.at,
                f"`{flow}` is an input flow here and a container in `reads`",
                "name one of them otherwise: a stage reads a flow from one place",
            )
        if isinstance(entry.value, Scalar):
            source = _source(entry.value, flows, findings)
            if source is not None:
                yield flow, source


def _source(
    written: Scalar, flows: Mapping[str, Collection[str]], findings: Findings
) -> FlowId | None:
    """Return which flow is meant: names may have dots themselves."""
    parts = written.text.split(".")
    splits = [(".".join(parts[:n]), ".".join(parts[n:])) for n in range(1, len(parts))]
    found = [FlowId(action, flow) for action, flow in splits if flow in flows.get(action, ())]
    if len(found) == 1:
        return found[0]
    if found:
        findings.error(
            written.at,
            f"`{written.text}` is "
            + " and ".join(f"flow `{one.flow}` of `{one.action}`" for one in found),
            "rename an action or a flow, so that it is one of them only",
        )
        return None
    known = [(action, flow) for action, flow in splits if action in flows]
    if not known:
        action = splits[0][0]
        findings.error(
            written.at, f"there is no action `{action}`", suggestion(action, flows, "action")
        )
        return None
    action, flow = known[0]
    if flows[action]:
        cure = suggestion(flow, flows[action], "flow")
    else:
        cure = f"add `out: {flow}` to `{action}`, if it is a stage that makes it"
    findings.error(written.at, f"`{action}` has no output flow `{flow}`", cure)
    return None


def _outputs(name: str, tree: yaml_tree.Mapping, findings: Findings) -> tuple[str, ...]:
    written = scalars_of(tree.get("out"))
    flows: dict[str, None] = {}
    for one in written:
        if one.text in flows:
            findings.error(one.at, f"output flow `{one.text}` is named twice", "remove one")
        flows[one.text] = None
    size = sum(len(flow) + _ROWS_CHARACTERS for flow in flows)
    if size > LONGEST_OUTPUTS:
        findings.error(
            tree.entries["out"].value.at,
            f"the output flows of `{name}` need {size} characters of what its runs commit, of "
            f"{LONGEST_OUTPUTS}",
            "give them shorter names, or spread them over several stages",
        )
    return tuple(flows)


def _runnable(tree: Tree | None) -> RunnableSpec:
    match tree:
        case Scalar(text=kind):
            return RunnableSpec(kind)
        case yaml_tree.Mapping(entries={"lookup": tables}):
            return RunnableSpec("lookup", tuple(one.text for one in scalars_of(tables.value)))
        case yaml_tree.Mapping(entries=entries) if entries:
            kind, written = next(iter(entries.items()))
            match written.value:
                case Scalar(value=int() as setting):
                    return RunnableSpec(kind, setting)
                case Scalar(text=entry):
                    return RunnableSpec(kind, entry)
                case yaml_tree.Mapping(entries=settings):
                    numbers = {
                        flow: one.value.value
                        for flow, one in settings.items()
                        if isinstance(one.value, Scalar) and isinstance(one.value.value, int)
                    }
                    return RunnableSpec(kind, numbers)
    return RunnableSpec()


# -- what concerns several actions ---------------------------------------------------------------


def check_stages(
    spec: DataflowSpec, trees: Mapping[str, yaml_tree.Mapping], findings: Findings
) -> None:
    """Note what is wrong with the flows of a dataflow as a whole, whose actions are in order."""
    actions = {action.name: action for action in spec.actions}
    after = {name: action.after for name, action in actions.items()}
    both = {name: (*after[name], *fed_by(action)) for name, action in actions.items()}
    for name, before in after.items():
        for one in before:
            if one != name and name in ancestors(one, both):
                tree = trees[name]
                at = tree.entries["after"].value.at if "after" in tree.entries else tree.at
                findings.error(
                    at,
                    f"`{name}` comes after `{one}`, which depends on flows of `{name}`",
                    "only flows may lead in a circle: say with `after:` which actions really come "
                    f"first, or have `{name}` read a flow of `{one}`",
                )
    if findings.failed:
        return
    for name, action in actions.items():
        if action.stage is None:
            continue
        try:
            make_policy(spec, action)
        except SpecificationError as error:
            entry = trees[name].entries.get("runnable", trees[name].entries[STAGE])
            for problem in error.problems:
                findings.error(entry.key.at, problem, "correct `runnable`, or the flows of `in`")
    if not findings.failed:
        _warn(actions, trees, findings)


def _warn(
    actions: Mapping[str, ActionSpec],
    trees: Mapping[str, yaml_tree.Mapping],
    findings: Findings,
) -> None:
    stages = {name: a.stage for name, a in actions.items() if a.stage is not None}
    read = {source for stage in stages.values() for source in stage.inputs.values()}
    for name, stage in stages.items():
        for flow in stage.outputs:
            if FlowId(name, flow) not in read:
                findings.warning(
                    trees[name].entries["out"].key.at,
                    f"no stage reads flow `{flow}` of `{name}`",
                    "remove it from `out`, or name it in `in` of a stage",
                )
    fed = {name: fed_by(action) for name, action in actions.items()}
    above = {name: ancestors(name, fed) for name in stages}
    for name in stages:
        circle = [one for one in above[name] if name in above.get(one, ())]
        if circle and name == min(circle) and not any(_starts(stages[c], circle) for c in circle):
            names = ", ".join(f"`{one}`" for one in sorted(circle))
            findings.warning(
                trees[name].entries["in"].key.at,
                f"nothing starts the loop of {names}: each waits for what another makes",
                "give one of them `runnable: {lag: 1}`, or start it by hand with `headgate flow "
                "run`",
            )


def _starts(stage: ActionFlows, circle: Collection[str]) -> bool:
    """Return whether a stage of a loop can run while nothing has come round."""
    if stage.runnable.kind == "lag":
        return True
    outside = any(source.action not in circle for source in stage.inputs.values())
    # A function of the user's may start it, or not: nobody knows.
    return outside and stage.runnable.kind in {"any", "prefer", "python"}


def fed_by(action: ActionSpec) -> tuple[str, ...]:
    """Return the actions whose flows an action reads."""
    sources = () if action.stage is None else action.stage.inputs.values()
    return tuple(dict.fromkeys(source.action for source in sources))
