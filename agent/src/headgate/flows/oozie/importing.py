"""From a workflow to a dataflow file: the same actions in the same order, with their bounds."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headgate.flows.building import check_tree
from headgate.flows.grammar.problems import DataflowErrors, Findings, Position, Problem, Severity
from headgate.flows.grammar.tree import Entry, Items, Scalar, Tree, entries_of, texts_of
from headgate.flows.grammar.tree import Mapping as TreeMapping
from headgate.flows.grammar.values import NAME
from headgate.flows.oozie.bounded_steps import LEARNED, BoundedSteps, associated
from headgate.flows.oozie.containers import Containers, keyed, resolved, text_scalar
from headgate.flows.oozie.error_bounds import read_error_bounds
from headgate.flows.oozie.order import Order
from headgate.flows.oozie.properties import (
    configured,
    inner_properties,
    names_in,
    path_beside,
    with_global,
)
from headgate.flows.oozie.qod import read_qod
from headgate.flows.oozie.steps import ImportedStep, note_unmapped, parameters, retries
from headgate.flows.oozie.workflow import (
    Kill,
    OozieAction,
    Workflow,
    read_workflow,
    targets,
    without_bounds,
)
from headgate.flows.oozie.writing import file_text

SUB_WORKFLOW = "sub-workflow"

_MOST_SUB_WORKFLOWS = 1_000  # a dataflow file has no room for the actions of more
_DEEPEST = 50  # of sub-workflows in each other: Oozie's own limit


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """What a workflow doesn't say and an import has to know.

    ``name`` of the dataflow, None for the workflow's own; ``module`` of the steps' functions;
    ``decisions``: branches taken, by decision; ``sub_workflows``: texts and file names of local
    copies, by action; ``inputs``: actions that are fed from outside instead of launched;
    ``properties`` of the job, which bounds and parameters need. ``beside`` returns text and file
    name of the sub-workflow that has a path from the folder of a workflow's file; None where there
    is none. Inside of a sub-workflow, names are those of the dataflow: ``action.inner``.
    """

    name: str | None = None
    module: str = "steps"
    decisions: Mapping[str, str] = field(default_factory=dict)
    sub_workflows: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    inputs: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    beside: Callable[[str, str], tuple[str, str] | None] = lambda _file, _path: None


@dataclass(frozen=True, slots=True)
class ImportedWorkflow:
    """A dataflow file's text, the functions that have to be there for it, and what was noticed."""

    name: str
    text: str
    steps: tuple[str, ...]
    warnings: tuple[Problem, ...]


def import_workflow(text: str, file: str, choices: ImportChoices | None = None) -> ImportedWorkflow:
    """Return the dataflow file that a workflow, with its bounds, is made into.

    Raises:
        DataflowErrors: the workflow can't be read or mapped; every problem found is in it.
    """
    importer = _Importer(file, choices or ImportChoices())
    tree = importer.dataflow(text)
    problems = importer.problems
    if tree is None:
        raise DataflowErrors(problems)
    return ImportedWorkflow(importer.name, file_text(tree), importer.functions, problems)


@dataclass(frozen=True, slots=True)
class _Place:
    """A workflow where it stands in the dataflow."""

    workflow: Workflow
    prefix: str
    """Beginning of its actions' names."""
    before: tuple[str, ...]
    """The actions that come before it, where it is a sub-workflow."""
    findings: Findings
    properties: Mapping[str, str]
    """Those of the job that are known in it."""
    files: tuple[str, ...]
    """Its own file, after those in whose workflows it lies."""


class _Importer:
    def __init__(self, file: str, choices: ImportChoices) -> None:
        self.choices = choices
        self.name = ""
        self._file = file
        self._findings = Findings(file)
        self._all = [self._findings]
        self._containers = Containers()
        self._bounded = BoundedSteps(self._findings)
        self._functions: dict[str, str] = {}
        self._chosen: set[str] = set()
        self._expressions: set[str] = set()
        self._included = 0

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions that the steps call."""
        module = self.choices.module
        fed = self.choices.inputs
        return tuple(f"{module}:{f}" for name, f in self._functions.items() if name not in fed)

    @property
    def problems(self) -> tuple[Problem, ...]:
        return tuple(problem for findings in self._all for problem in findings.problems)

    def dataflow(self, text: str) -> TreeMapping | None:
        """Return the tree of the dataflow file; None after errors."""
        workflow = read_workflow(text, self._findings)
        if workflow is None:
            return None
        properties = {**workflow.defaults, **self.choices.properties}
        mapped = self._steps(_Place(workflow, "", (), self._findings, properties, (self._file,)))
        if mapped is None:
            return None
        steps, _ = mapped
        self._check_choices(workflow)
        tree = self._tree(workflow, steps)
        if any(findings.failed for findings in self._all):
            return None
        self._check(tree, steps)
        return None if self._findings.failed else tree

    def _check(self, tree: TreeMapping, steps: list[ImportedStep]) -> None:
        """Note what is wrong with the file that would be written; of sub-workflows errors only.

        The tree has their places too, but not their files.
        """
        found = Findings(self._file)
        check_tree(tree, found)
        own = {step.at for step in steps}
        for problem in found.problems:
            at = Position(problem.line, problem.column)
            if problem.severity is Severity.ERROR:
                self._findings.error(at, problem.message, problem.cure)
            elif at in own:
                self._findings.warning(at, problem.message, problem.cure)

    # -- order -----------------------------------------------------------------------------------

    def _steps(self, place: _Place) -> tuple[list[ImportedStep], tuple[str, ...]] | None:
        """Return the steps of a workflow, and those after which it has ended."""
        workflow, prefix, findings = place.workflow, place.prefix, place.findings
        decisions = {
            name.removeprefix(prefix): branch
            for name, branch in self.choices.decisions.items()
            if name.startswith(prefix)
        }
        order = Order(workflow, decisions, findings)
        if not order.sound:
            return None
        self._chosen |= {f"{prefix}{name}" for name in workflow.nodes}
        self._expressions |= names_in(workflow.text)
        self._note_left_out(workflow, order, findings)
        note_unmapped(workflow, order.actions, findings)
        steps: dict[str, list[ImportedStep]] = {}
        stands_for: dict[str, tuple[str, ...]] = {}
        for action in order.actions:
            names = order.predecessors(action.name)
            after = tuple(dict.fromkeys(one for name in names for one in stands_for[name]))
            step = ImportedStep(
                f"{prefix}{action.name}",
                action,
                with_global(action.body, workflow),
                after if names else place.before,
                action.at,
                findings,
                place.properties,
            )
            if action.body.name == SUB_WORKFLOW:
                inner = self._sub_workflow(step, place)
                stands_for[action.name] = inner[1]
                steps[action.name] = [replace(one, at=action.at) for one in inner[0]]
            else:
                stands_for[action.name] = (step.name,)
                steps[action.name] = [step]
        ends = tuple(dict.fromkeys(one for name in order.ends for one in stands_for[name]))
        return [step for a in workflow.actions for step in steps.get(a.name, ())], ends

    def _sub_workflow(
        self, step: ImportedStep, outer: _Place
    ) -> tuple[list[ImportedStep], tuple[str, ...]]:
        action, findings = step.action, step.findings
        nothing: tuple[list[ImportedStep], tuple[str, ...]] = ([], step.after)
        copy = self._copy(step, outer)
        if copy is None:
            return nothing
        for element in (action.qod, action.error_bounds):
            if element is not None:
                findings.error(
                    element.at,
                    f"`{step.name}` is a workflow, whose actions run one by one",
                    f"put the `{element.name}` on the actions inside of it",
                )
        text, file = copy
        inner_findings = Findings(file)
        self._all.append(inner_findings)
        workflow = read_workflow(text, inner_findings)
        if workflow is None:
            return nothing
        properties = inner_properties(
            step.body, workflow, outer.properties, self.choices.properties
        )
        before, self._expressions = self._expressions, set()
        inner = self._steps(
            _Place(
                workflow,
                f"{step.name}.",
                step.after,
                inner_findings,
                properties,
                (*outer.files, file),
            )
        )
        self._note_unused(step, file)
        self._expressions |= before
        if not inner:
            return nothing
        if not inner[0]:
            inner_findings.error(
                Position(1, 1), "this workflow has no action", "add one, or remove what starts it"
            )
        return inner

    def _copy(self, step: ImportedStep, outer: _Place) -> tuple[str, str] | None:
        """Return text and file of a sub-workflow; None after an error."""
        body, name = step.body, step.name
        copy = self.choices.sub_workflows.get(name)
        if copy is not None:
            return copy
        path = next((one.text.strip() for one in body.of("app-path")), "")
        beside = path_beside(body, outer.properties)
        wrong, cure = "", f"import with `--sub-workflow {name}=FILE` of another one"
        self._included += 1
        if len(outer.files) > _DEEPEST:
            wrong = f"more than {_DEEPEST} workflows lie in each other at `{name}`"
        elif self._included > _MOST_SUB_WORKFLOWS:
            if self._included > _MOST_SUB_WORKFLOWS + 1:
                return None  # it has been said
            wrong = f"more than {_MOST_SUB_WORKFLOWS:,} sub-workflows lie in this one"
            cure = "import parts of it as dataflows of their own"
        elif beside is None:
            wrong = f"`{name}` is the workflow at `{path}`, which can't be read from here"
            cure = f"take a copy of its workflow.xml and import with `--sub-workflow {name}=FILE`"
        else:
            copy = self.choices.beside(outer.files[-1], beside)
            if copy is None:
                wrong = f"`{name}` is the workflow at `{path}`, and there is none"
                cure = (
                    f"put it at `{beside}` in the folder of {outer.files[-1]}, or import with "
                    f"`--sub-workflow {name}=FILE`"
                )
            elif copy[1] in outer.files:
                wrong = f"`{name}` is the workflow in {copy[1]}, in which it lies itself"
        if wrong:
            step.findings.error(body.at, wrong, cure)
            return None
        return copy

    def _note_unused(self, step: ImportedStep, file: str) -> None:
        """Warn of what a sub-workflow's configuration says and nothing in it asks for."""
        names = [name for name in configured(step.body) if name not in self._expressions]
        if names:
            listed = ", ".join(f"`{name}`" for name in names)
            step.findings.warning(
                step.body.at,
                f"nothing in {file} asks for {listed}, which the configuration of `{step.name}` "
                "says, so it is left out of the dataflow",
                "if a step needs it, write it into the step's `parameters`",
            )

    def _note_left_out(self, workflow: Workflow, order: Order, findings: Findings) -> None:
        """Warn of what a failure would lead to, and of what nothing leads to."""
        reached = {action.name for action in order.actions}
        handlers: set[str] = set()
        for action in order.actions:
            target = workflow.nodes.get(action.error)
            if target is None:
                if action.error:
                    findings.error(
                        action.error_at,
                        f"`error` of `{action.name}` leads to `{action.error}`, which is no node",
                        "write the name of a `kill` node",
                    )
            elif not isinstance(target, Kill):
                handlers |= _reached_from(workflow, action.error)
                findings.warning(
                    action.error_at,
                    f"after a failure of `{action.name}` the workflow goes on with `{target.name}`",
                    "a dataflow doesn't: a failed action is tried again and then quarantined, and "
                    "what comes after it waits; let the step itself handle what it can",
                )
        for action in workflow.actions:
            if action.name not in reached:
                why = "only failures lead" if action.name in handlers else "nothing leads"
                findings.warning(
                    action.at,
                    f"{why} to `{action.name}`, so it is left out of the dataflow",
                    "act on failures by the metric headgate_agent_runs_total and on quarantine by "
                    "`headgate flow show`"
                    if action.name in handlers
                    else "add a transition to it, or choose its branch with `--decision`",
                )

    # -- the file --------------------------------------------------------------------------------

    def _tree(self, workflow: Workflow, steps: list[ImportedStep]) -> TreeMapping:
        at = workflow.at
        self.name = self.choices.name or workflow.name
        if not re.fullmatch(NAME, self.name):
            self._findings.error(
                at, f"`{self.name}` can't name a dataflow", "give it another name: `--name NAME`"
            )
        actions: dict[str, Entry] = {}
        for step in steps:
            actions[step.name] = Entry(text_scalar(step.name, step.action.at), self._action(step))
        self._feed(actions, steps)
        actions = self._bounded.ordered(steps, actions)
        learned = self._bounded.section()
        sections: dict[str, Tree] = {"name": text_scalar(self.name, at)}
        if self._containers.entries:
            sections["containers"] = TreeMapping(self._containers.entries, at)
        sections["actions"] = TreeMapping(actions, at)
        if learned is not None:
            sections[LEARNED] = learned
        sections["oozie"] = self._origin(workflow)
        return keyed(sections, at)

    def _origin(self, workflow: Workflow) -> TreeMapping:
        at = workflow.at
        keys: dict[str, Tree] = {}
        taken = {k: v for k, v in self.choices.decisions.items() if k in workflow.nodes}
        if taken:
            branches = {name: text_scalar(branch, at) for name, branch in taken.items()}
            keys["decisions"] = keyed(branches, at)
        keys["workflow"] = text_scalar(without_bounds(workflow), at)
        return keyed(keys, at)

    def _action(self, step: ImportedStep) -> TreeMapping:
        action, at = step.action, step.at
        keys: dict[str, Tree] = {
            "step": text_scalar(f"{self.choices.module}:{self._function(step.name)}", at),
            "description": text_scalar(f"Oozie {action.body.name} action", at),
            "after": Items(tuple(text_scalar(name, at) for name in step.after), at),
        }
        if action.error_bounds is not None:
            element = resolved(action.error_bounds, step.properties)
            bounds = read_error_bounds(element, self._containers, step.findings)
            self._bounded.add(step.name, bounds, step.findings)
            keys |= associated(bounds)
        if action.qod is not None:
            qod = resolved(action.qod, step.properties)
            quality = read_qod(qod, self._containers, step.findings)
            if quality is not None:
                keys["when"] = quality.when
                if quality.combine is not None:
                    keys["combine"] = quality.combine
        tried = retries(step)
        if tried is not None:
            keys["retries"] = tried
        said = parameters(step)
        if said is not None:
            keys["parameters"] = said
        return keyed(keys, at)

    def _function(self, name: str) -> str:
        function = re.sub(r"\W", "_", name, flags=re.ASCII)
        while keyword.iskeyword(function) or function in self._functions.values():
            function += "_"
        self._functions[name] = function
        return function

    def _feed(self, actions: dict[str, Entry], steps: list[ImportedStep]) -> None:
        """Make actions inputs: what their successors watch is what they are fed into."""
        for name in self.choices.inputs:
            step = next((one for one in steps if one.name == name), None)
            if step is None:
                continue
            own = entries_of(actions[name].value)
            followers = (actions[other.name].value for other in steps if name in other.after)
            watched = dict.fromkeys(
                (
                    *_names(own.get("writes")),
                    *(
                        container
                        for follower in followers
                        for container in _watched(follower)
                        if container not in self._bounded.written
                    ),
                )
            )
            at = step.action.at
            if step.after or "when" in own or "reads" in own:
                step.findings.error(
                    at,
                    f"`{name}` can't be an input: it has predecessors, bounds of its own or reads",
                    "inputs are the first actions, which something outside runs",
                )
            elif not watched:
                step.findings.error(
                    at,
                    f"`{name}` can't be an input: no action after it watches a container",
                    "add a `qod` or `error-bounds` to the actions after it",
                )
            else:
                containers = Items(tuple(text_scalar(one, at) for one in watched), at)
                keys: dict[str, Tree] = {
                    "input": containers,
                    "description": text_scalar(f"Oozie {step.action.body.name} action", at),
                }
                fed = keyed(keys, at)
                actions[name] = Entry(actions[name].key, fed)

    def _check_choices(self, workflow: Workflow) -> None:
        for option, names in (
            ("--decision", self.choices.decisions),
            ("--sub-workflow", self.choices.sub_workflows),
            ("--input", self.choices.inputs),
        ):
            for name in names:
                if name not in self._chosen:
                    self._findings.error(
                        workflow.at,
                        f"`{option}` names `{name}`, which is no node of the workflow",
                        "write the name of the node; inside of a sub-workflow it is `action.node`",
                    )
        unused = [name for name in self.choices.properties if name not in self._expressions]
        if unused:
            listed = ", ".join(f"`{name}`" for name in unused)
            self._findings.warning(
                workflow.at,
                f"`--property` says what {listed} is, which no expression of the workflow names",
                "check the spelling, or leave it out",
            )


def _reached_from(workflow: Workflow, name: str) -> set[str]:
    """Return the nodes that a node leads to, by failures too, and itself."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = waiting.pop()
        node = workflow.nodes.get(one)
        if node is not None and one not in found:
            found.add(one)
            waiting += targets(node)
            if isinstance(node, OozieAction):
                waiting.append(node.error)
    return found


def _watched(tree: Tree) -> Iterator[str]:
    when = entries_of(tree).get("when")
    for name, bound in entries_of(when.value if when else None).items():
        named = entries_of(bound.value).get("container")
        yield named.value.text if named and isinstance(named.value, Scalar) else name
    yield from _names(entries_of(tree).get("reads"))


def _names(entry: Entry | None) -> tuple[str, ...]:
    return texts_of(entry.value) if entry and isinstance(entry.value, Items) else ()
