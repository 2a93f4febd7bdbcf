"""Each element of Oozie's schemas is kept for the step, translated, or warned about."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
import yaml

from headgate.flows import ImportChoices, import_workflow

CONFIGURATION = "configuration(property(name value description))"
PREPARE = "prepare(delete[path skip-trash] mkdir[path])"
JOB = f"job-tracker resource-manager name-node {PREPARE} job-xml {CONFIGURATION} {{}} file archive"
LAUNCHER = "launcher(memory.mb vcores java-opts env queue sharelib view-acl modify-acl)"
COMMANDS = (
    "delete[path skip-trash] mkdir[path] move[source target] touchz[path] "
    "chmod[path permissions dir-files](recursive!) chgrp[path group dir-files](recursive!) "
    "setrep[path replication-factor]"
)
STREAMING = "streaming(mapper reducer record-reader record-reader-mapping env)"
PIPES = "pipes(map reduce inputformat partitioner writer program)"

ACTIONS = {
    "map-reduce": ("", JOB.format(f"{STREAMING} {PIPES} {LAUNCHER} config-class")),
    "pig": ("", JOB.format(f"{LAUNCHER} script param argument")),
    "java": ("", JOB.format(f"{LAUNCHER} main-class java-opts java-opt arg capture-output!")),
    "fs": (
        "",
        f"name-node job-xml {CONFIGURATION} {COMMANDS}",
    ),
    "ssh": ("ssh-action:0.2", "host command args arg capture-output!"),
    "email": ("email-action:0.2", "to cc bcc subject body content_type attachment"),
    "shell": (
        "shell-action:1.0", JOB.format(f"{LAUNCHER} exec argument env-var capture-output!")
    ),
    "hive": ("hive-action:1.0", JOB.format(f"{LAUNCHER} script query param argument")),
    "hive2": (
        "hive2-action:1.0", JOB.format(f"{LAUNCHER} jdbc-url password script query param argument")
    ),
    "sqoop": ("sqoop-action:1.0", JOB.format(f"{LAUNCHER} command arg")),
    "spark": (
        "spark-action:1.0", JOB.format(f"{LAUNCHER} master mode name class jar spark-opts arg")
    ),
    "distcp": ("distcp-action:1.0", JOB.format(f"{LAUNCHER} java-opts arg")),
    "git": ("git-action:1.0", JOB.format("git-uri branch key-path destination-uri")),
    "http": ("", "http-url post[content-type] wait continue capture-output!"),
}  # fmt: skip
"""Each kind of action, with its schema where that is not the workflow's own, and its elements.

Of all versions from 0.1 on: in brackets the attributes, in parentheses the elements inside, with
``!`` those that are flags. Only ``description`` is for people alone.
"""

PART = re.compile(r"(?P<name>[\w.\-]+)(?P<flag>!)?(?:\[(?P<attributes>[^\]]*)\])?")


def parts(text: str) -> Iterator[tuple[str, bool, list[str], str]]:
    """Yield name, whether it is a flag, attributes and what lies inside of each element."""
    at = 0
    while at < len(text):
        found = PART.match(text, at)
        if found is None:
            at += 1
            continue
        at, inside = found.end(), ""
        if text[at : at + 1] == "(":
            depth, start = 0, at
            while True:
                depth += (text[at] == "(") - (text[at] == ")")
                at += 1
                if depth == 0:
                    break
            inside = text[start + 1 : at - 1]
        yield found["name"], bool(found["flag"]), (found["attributes"] or "").split(), inside


class Sample:
    """A document that has every element, each text and each attribute with a value of its own."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.flags: set[str] = set()

    def xml(self, text: str, path: str = "") -> str:
        return "".join(self._element(path, *part) for part in parts(text))

    def _element(
        self, path: str, name: str, is_flag: bool, attributes: list[str], inside: str
    ) -> str:
        place = f"{path}/{name}"
        written = "".join(f' {one}="{self._value(f"{place}@{one}")}"' for one in attributes)
        if is_flag:
            self.flags.add(name)
            return f"<{name}{written}/>"
        content = self.xml(inside, place) if inside else self._value(place)
        return f"<{name}{written}>{content}</{name}>"

    def _value(self, place: str) -> str:
        return self.values.setdefault(place, f"value{len(self.values)}")


def flat(value: object) -> Iterator[object]:
    if isinstance(value, dict):
        yield from itertools.chain(value, *map(flat, value.values()))
    elif isinstance(value, list):
        yield from itertools.chain(*map(flat, value))
    else:
        yield value


@pytest.mark.parametrize("kind", ACTIONS)
def test_a_step_has_every_element_of_its_action(kind, workflow, action) -> None:
    schema, elements = ACTIONS[kind]
    sample = Sample()
    namespace = f' xmlns="uri:oozie:{schema}"' if schema else ""
    body = f"<{kind}{namespace}>{sample.xml(elements)}</{kind}>"

    imported = import_workflow(workflow(action("a", body=body), version="1.0"), "w.xml")

    said = yaml.safe_load(imported.text)["actions"]["a"]["parameters"][kind]
    found = list(flat(said))
    lost = {
        place
        for place, value in sample.values.items()
        if value not in found and not place.endswith("/description")
    }
    assert not lost
    assert sample.flags <= set(found)
    assert found.count("true") + found.count(True) == len(
        re.findall(r"<(?:capture-output|recursive)/>", body)
    )


GLOBAL = (
    "<global>{}<job-xml>shared.xml</job-xml><configuration>"
    "<property><name>p</name><value>shared</value></property>"
    "<property><name>q</name><value>shared</value></property></configuration></global>"
).format("<job-tracker>jt</job-tracker><name-node>nn</name-node>")
SLA = (
    '<sla:info xmlns:sla="uri:oozie:sla:0.2"><sla:nominal-time>x</sla:nominal-time>'
    "<sla:should-end>y</sla:should-end></sla:info>"
)
CREDENTIALS = (
    '<credentials><credential name="hcat" type="hcat"><property><name>n</name><value>v</value>'
    "</property></credential></credentials>"
)
JAVA = "<java>{}<main-class>M</main-class></java>"


@pytest.fixture
def imported(workflow):
    def of(*nodes: str, version: str = "0.5", **choices):
        text = workflow(*nodes, version=version)
        made = import_workflow(text, "w.xml", ImportChoices(**choices))
        return yaml.safe_load(made.text)["actions"], [one.message for one in made.warnings]

    return of


@pytest.mark.parametrize("version", ["0.1", "0.2", "0.2.5", "0.3", "0.4", "0.4.5", "0.5", "1.0"])
def test_a_workflow_of_every_schema_is_read(version, imported, action) -> None:
    actions, _ = imported(action("a"), version=version)

    assert actions["a"]["step"] == "steps:a"


def test_what_a_workflow_says_for_all_actions_is_said_to_each(imported, action) -> None:
    own = (
        "<job-xml>own.xml</job-xml><configuration><property><name>q</name><value>own</value>"
        "</property></configuration>"
    )
    actions, _ = imported(
        GLOBAL,
        action("a", "b", body=JAVA.format("<job-tracker>mine</job-tracker>" + own)),
        action("b", "c", body="<fs><mkdir path='x'/></fs>"),
        action("c", body='<ssh xmlns="uri:oozie:ssh-action:0.2"><host>h</host></ssh>'),
    )

    assert actions["a"]["parameters"]["java"] == {
        "job-xml": ["shared.xml", "own.xml"],
        "job-tracker": "mine",
        "name-node": "nn",
        "configuration": {"p": "shared", "q": "own"},
        "main-class": "M",
    }
    assert actions["b"]["parameters"]["fs"] == {
        "job-xml": "shared.xml",
        "mkdir": {"path": "x"},
        "name-node": "nn",
        "configuration": {"p": "shared", "q": "shared"},
    }
    assert actions["c"]["parameters"]["ssh"] == {"host": "h"}


def test_the_launcher_of_all_actions_gives_what_an_action_does_not_say(imported, action) -> None:
    shared = "<launcher><queue>all</queue><vcores>1</vcores></launcher>"
    own = "<launcher><queue>mine</queue></launcher>"
    actions, _ = imported(
        f"<global>{shared}</global>", action("a", body=JAVA.format(own)), version="1.0"
    )

    assert actions["a"]["parameters"]["java"]["launcher"] == {"vcores": "1", "queue": "mine"}


@pytest.mark.parametrize(
    ("preamble", "more", "inner", "warning"),
    [
        (CREDENTIALS, "", "", "credentials `hcat` are fetched by Oozie"),
        ("", ' cred="hcat"', "", "`a` runs with credentials `hcat` of Oozie's"),
        (SLA, "", "", "nobody watches over the `sla:info` of workflow `w`"),
        ("", "", SLA, "nobody watches over the `sla:info` of action `a`"),
        ("", ' retry-interval="3"', "", "has no `retry-max`"),
        ("", ' retry-policy="exponential"', "", "has no `retry-max`"),
        ("", ' retry-max="${n}"', "", "`retry-max` is `${n}`, which only a job knows"),
        ("", ' retry-max="2" retry-policy="odd"', "", "neither periodic nor exponential"),
    ],
)
def test_what_a_dataflow_has_nothing_for_is_warned_about(
    preamble, more, inner, warning, imported, action
) -> None:
    node = action("a", more=more).replace("</action>", f"{inner}</action>")

    _, warnings = imported(*filter(None, [preamble, node]))

    assert [one for one in warnings if warning in one]


@pytest.mark.parametrize(
    ("attributes", "retries"),
    [
        ('retry-max="2"', 3),
        ('retry-max="2" retry-interval="0"', 3),
        ('retry-max="2" retry-interval="5"', {"attempts": 3, "backoff": ["5 min", "5 min"]}),
        (
            'retry-max="2" retry-interval="5" retry-policy="exponential"',
            {"attempts": 3, "backoff": ["5 min", "20 min"]},
        ),
    ],
)
def test_attempts_follow_the_retry_policy(attributes, retries, imported, action) -> None:
    actions, _ = imported(action("a", more=f" {attributes}"))

    assert actions["a"]["retries"] == retries


def test_commands_of_fs_whose_order_is_lost_are_warned_about(imported, action) -> None:
    body = "<fs><mkdir path='x'/><delete path='y'/><mkdir path='z'/></fs>"

    _, warnings = imported(action("a", body=body))

    assert any("`mkdir` of `a` stand between others" in one for one in warnings)


def test_an_empty_argument_is_an_empty_text(imported, action) -> None:
    actions, _ = imported(
        action("a", body=JAVA.format("").replace("</java>", "<arg/><arg>b</arg></java>"))
    )

    assert actions["a"]["parameters"]["java"]["arg"] == ["", "b"]


def test_a_step_is_told_what_the_properties_in_its_parameters_are(imported, action) -> None:
    parameters = (
        "<parameters><property><name>dir</name><value>${root}/d</value></property>"
        "<property><name>root</name><value>/r</value></property>"
        "<property><name>other</name><value>o</value></property></parameters>"
    )
    body = JAVA.format("<arg>${concat(dir, user)}</arg>")

    actions, _ = imported(parameters, action("a", body=body), properties={"user": "u"})

    assert actions["a"]["parameters"]["properties"] == {
        "dir": "${root}/d",
        "root": "/r",
        "user": "u",
    }


# -- sub-workflows -------------------------------------------------------------------------------

QOD = '<qod><table name="${t}" time="1"/></qod>'


def sub(*properties: tuple[str, str], propagate: bool = False, path: str = "hdfs:/x") -> str:
    said = "".join(
        f"<property><name>{n}</name><value>{v}</value></property>" for n, v in properties
    )
    flag = "<propagate-configuration/>" if propagate else ""
    return (
        f"<sub-workflow><app-path>{path}</app-path>{flag}"
        f"<configuration>{said}</configuration></sub-workflow>"
    )


def declared(name: str, value: str) -> str:
    return (
        f"<parameters><property><name>{name}</name><value>{value}</value></property></parameters>"
    )


@pytest.mark.parametrize(
    ("configuration", "propagate", "default", "table"),
    [
        ("said", False, "", "said"),
        ("said", True, "default", "said"),
        ("", False, "default", "default"),
        ("", True, "default", "job"),
        ("", False, "", "job"),
        ("${t}-2", False, "default", "job-2"),
    ],
)
def test_a_property_of_a_sub_workflow_is_what_oozie_makes_it(
    configuration, propagate, default, table, workflow, action
) -> None:
    body = sub(*([("t", configuration)] if configuration else []), propagate=propagate)
    inner = workflow(
        *([declared("t", default)] if default else []), action("a", qod=QOD), version="0.5"
    )
    outer = workflow(action("s", body=body), start="s", version="0.5")
    choices = ImportChoices(sub_workflows={"s": (inner, "inner.xml")}, properties={"t": "job"})

    made = yaml.safe_load(import_workflow(outer, "w.xml", choices).text)

    assert [one["table"] for one in made["containers"].values()] == [table]


def test_what_nothing_in_a_sub_workflow_asks_for_is_warned_about(workflow, action) -> None:
    inner = workflow(action("a", body=JAVA.format("<arg>${used}</arg>")))
    outer = workflow(action("s", body=sub(("used", "1"), ("lost", "2"))), start="s")
    choices = ImportChoices(sub_workflows={"s": (inner, "inner.xml")}, properties={"odd": "1"})

    made = import_workflow(outer, "w.xml", choices)

    warnings = [one.message for one in made.warnings]
    assert any("nothing in inner.xml asks for `lost`, which" in one for one in warnings)
    assert any("`--property` says what `odd` is" in one for one in warnings)
    said = yaml.safe_load(made.text)["actions"]["s.a"]["parameters"]
    assert said["properties"] == {"used": "1"}


def test_a_sub_workflow_is_looked_for_beside_its_outer_one(workflow, action) -> None:
    inner = workflow(action("t", body=sub(path="${wf:appPath()}/../deep")), start="t")
    files = {
        ("w.xml", "subs/in"): (inner, "subs/in/workflow.xml"),
        ("subs/in/workflow.xml", "../deep"): (workflow(action("a")), "subs/deep/workflow.xml"),
    }
    outer = workflow(
        declared("where", "subs"),
        action("s", body=sub(path="${wf:appPath()}/${where}/in")),
        start="s",
        version="0.5",
    )

    made = import_workflow(outer, "w.xml", ImportChoices(beside=lambda *at: files.get(at)))

    assert list(yaml.safe_load(made.text)["actions"]) == ["s.t.a"]
