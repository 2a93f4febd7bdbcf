"""The XML Schema of the added elements allows what an import reads, alone and in a workflow's."""

import shutil
import subprocess
from pathlib import Path

import pytest

from headgate.flows import DataflowErrors, import_workflow, qod_schema_text

JAVA = shutil.which("java")

pytestmark = pytest.mark.skipif(JAVA is None, reason="there is no Java to validate with")

ROW = '<row id="k" table="t" name="r" value="100"/>'
READ = '<reads><table name="t"/></reads>'
WRITTEN = '<writes><table name="w" max-error="0.05" confidence="0.99"/></writes>'
GOOD = [
    '<qod><table name="t" time="60.5" sequence="100" value="10"/></qod>',
    '<qod combine="at-least-one"><table name="n:t" time=".5"/></qod>',
    '<qod><column table="t" name="f:q" sequence="+1"/></qod>',
    f'<qod combine="k or t and (k)">{ROW}<table name="t" time="1"/></qod>',
    '<qod><group><item table="t" column="f:q"/><item table="u"/><time>5</time></group></qod>',
    '<qod><column table="t" name="f:"><value>1</value><time> 2 </time></column></qod>',
    f"<error-bounds>{READ}{WRITTEN}</error-bounds>",
    (
        f'<error-bounds>{READ}<writes><row table="w" name="r" max-error=".999"/></writes>'
        '<writes><group max-error="+0.1"><item table="u" row="r"/><confidence>.5</confidence>'
        "</group></writes></error-bounds>"
    ),
    (
        f'<error-bounds>{READ}<writes><column table="w" name="f:"><max-error> 0.2 </max-error>'
        "</column></writes></error-bounds>"
    ),
    '<error-bounds><reads><group><item table="t"/></group></reads></error-bounds>',
]
BAD = [
    "<qod/>",
    '<qod><tabel name="t" time="5"/></qod>',
    '<qod combin="all"><table name="t" time="5"/></qod>',
    '<qod><table time="5"/></qod>',
    '<qod><table name="${t}" time="5"/></qod>',
    '<qod><table name="t" time="5 s"/></qod>',
    '<qod><table name="t" time="0"/></qod>',
    '<qod><table name="t" sequence="0"/></qod>',
    '<qod><table name="t" sequence="1.5"/></qod>',
    '<qod><table name="t" value="0"/></qod>',
    '<qod><table name="t" value="101"/></qod>',
    '<qod><table name="t" value="5%"/></qod>',
    '<qod><table name="t"><time/></table></qod>',
    '<qod><table id="a b" name="t" time="5"/></qod>',
    '<qod><column name="f:q" time="5"/></qod>',
    '<qod><row table="t" name="" time="5"/></qod>',
    '<qod><group time="5"/></qod>',
    '<qod><group time="5"><item/></group></qod>',
    '<qod><group time="5"><item table="t" time="5"/></group></qod>',
    '<qod><group time="5"><table name="t"/></group></qod>',
    "<error-bounds/>",
    "<error-bounds><reads/></error-bounds>",
    "<error-bounds>" + WRITTEN.replace("writes", "write") + "</error-bounds>",
    f'<error-bounds combine="all">{READ}{WRITTEN}</error-bounds>',
    '<error-bounds><table name="t" max-error="0.05"/></error-bounds>',
    '<error-bounds><reads><table name="t" max-error="0.05"/></reads></error-bounds>',
    (
        '<error-bounds><reads><table name="t"><max-error>0.05</max-error></table></reads>'
        "</error-bounds>"
    ),
    *(
        f"<error-bounds>{READ}{WRITTEN.replace(old, new)}</error-bounds>"
        for old, new in (
            *(("0.05", bad) for bad in ("0", "1", "1.5", "-0.1", "5%", "")),
            *(("0.99", bad) for bad in ("0.49", "1", "99%")),
            ("max-error", "error"),
            ("table", "tabel"),
            ('name="w"', 'name="w" time="5"'),
        )
    ),
]

# The part of a workflow's schema that an action lies in, as somebody would extend theirs.
EXTENDED = """\
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:w="uri:oozie:workflow:0.2"
    elementFormDefault="qualified" targetNamespace="uri:oozie:workflow:0.2">
  <xs:include schemaLocation="qod.xsd"/>
  <xs:element name="action"><xs:complexType><xs:sequence>
    <xs:element ref="w:qod" minOccurs="0"/>
    <xs:element ref="w:error-bounds" minOccurs="0"/>
    <xs:element name="java"/>
  </xs:sequence></xs:complexType></xs:element>
</xs:schema>
"""


@pytest.fixture(scope="module")
def schemas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    (folder / "qod.xsd").write_text(qod_schema_text(), encoding="utf-8")
    (folder / "workflow.xsd").write_text(EXTENDED, encoding="utf-8")
    return folder


def validated(schema, documents):
    """Return for each document `valid` or what is wrong with it."""
    assert JAVA is not None
    validator = str(Path(__file__).with_name("Validate.java"))
    return subprocess.run(
        [JAVA, "-XX:TieredStopAtLevel=1", validator, str(schema)],
        input="\0".join(documents),
        capture_output=True,
        encoding="utf-8",
        check=True,
        timeout=120,
    ).stdout.splitlines()


def is_read(workflow, action, qod):
    try:
        import_workflow(workflow(action("a", qod=qod)), "workflow.xml")
    except DataflowErrors:
        return False
    return True


def test_schema_and_import_agree(schemas, workflow, action):
    verdicts = dict(zip(GOOD + BAD, validated(schemas / "qod.xsd", GOOD + BAD), strict=True))

    assert {qod: verdicts[qod] for qod in GOOD} == dict.fromkeys(GOOD, "valid")
    assert [qod for qod in BAD if verdicts[qod] == "valid"] == []
    assert [qod for qod in GOOD if not is_read(workflow, action, qod)] == []
    assert [qod for qod in BAD if is_read(workflow, action, qod)] == []


def test_a_workflows_schema_that_includes_it_has_it_in_its_own_namespace(schemas):
    documents = [
        f'<action xmlns="uri:oozie:workflow:0.2">{added}<java/></action>'
        for added in (GOOD[4] + GOOD[6], BAD[1], BAD[-2])
    ]

    good, *bad = validated(schemas / "workflow.xsd", documents)

    assert good == "valid"
    assert ["tabel" in words for words in bad] == [True, True]
