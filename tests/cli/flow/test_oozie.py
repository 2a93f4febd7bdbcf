"""``headgate flow import`` and ``headgate flow export``."""

import json

import pytest
from typer.testing import CliRunner

from headgate.cli.flow.commands import app

WORKFLOW = """\
<workflow-app name="news" xmlns="uri:oozie:workflow:0.2">
  <start to="crawl"/>
  <action name="crawl">
    <java><main-class>Crawl</main-class></java>
    <ok to="{ok}"/>
    <error to="failed"/>
  </action>
  <decision name="any"><switch><case to="index">x</case><default to="end"/></switch></decision>
  <action name="index">
    <qod><table name="pages" time="200" sequence="100" value="10"/></qod>
    <java><main-class>Index</main-class></java>
    <ok to="end"/>
    <error to="failed"/>
  </action>
  <kill name="failed"><message>failed</message></kill>
  <end name="end"/>
</workflow-app>
"""
PLAIN = WORKFLOW.format(ok="any").replace(
    '    <qod><table name="pages" time="200" sequence="100" value="10"/></qod>\n', ""
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "workflow.xml"
    path.write_text(WORKFLOW.format(ok="any"))
    return str(path)


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def test_an_imported_file_is_written_checked_and_exported(path, tmp_path):
    flow = str(tmp_path / "flow.yaml")
    imported = run("import", path, "--decision", "any=all", "--input", "crawl", "-o", flow)
    checked = run("check", flow)
    exported = run("export", flow)

    assert (imported.exit_code, checked.exit_code, exported.exit_code) == (0, 0, 0)
    assert imported.stdout == f"{flow}: dataflow news, of {path}\n"
    assert imported.stderr == f"{path}: its actions call functions that are yours: steps:index\n"
    assert checked.stdout == (
        f"{flow}: dataflow news is in order: 2 actions, 1 bound, 1 container\n"
    )
    assert exported.stdout == PLAIN


def test_without_a_place_to_write_to_the_file_is_printed(path):
    result = run("import", path, "--decision", "any=index", "--name", "other", "--module", "m.s")

    assert result.exit_code == 0
    assert result.stdout.startswith("name: other\ncontainers:\n")
    assert "step: m.s:crawl\n" in result.stdout


def test_what_can_not_be_mapped_is_shown_in_its_line(path):
    result = run("import", path)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{path}:8:3: error: decision `any` can't be mapped" in result.stderr
    assert "8 |   <decision" in result.stderr
    assert "`--decision any=all`" in result.stderr
    assert result.stderr.endswith(f"{path}: 1 error\n")


def test_json_is_one_document_of_the_import(path):
    good = json.loads(run("import", path, "--json", "--decision", "any=all").stdout)
    wrong = run("import", path, "--json")

    assert (good["in_order"], good["dataflow"]) == (True, "news")
    assert good["steps"] == ["steps:crawl", "steps:index"]
    assert good["text"].startswith("name: news\n")
    assert wrong.exit_code == 1
    (problem,) = [one for one in json.loads(wrong.stdout)["problems"] if one["severity"] == "error"]
    assert (problem["line"], problem["column"]) == (8, 3)


def test_a_problem_of_a_sub_workflow_is_shown_in_its_own_file(tmp_path):
    outer, inner = tmp_path / "outer.xml", tmp_path / "inner.xml"
    inner.write_text(WORKFLOW.format(ok="nowhere"))
    body = "<sub-workflow><app-path>inner</app-path></sub-workflow>"
    outer.write_text(
        WORKFLOW.format(ok="end").replace("<java><main-class>Crawl</main-class></java>", body)
    )

    result = run("import", str(outer), "--sub-workflow", f"crawl={inner}")

    assert f"{inner}:3:3: error: `ok` of `crawl` leads to `nowhere`" in result.stderr


def nested(app_path):
    body = f"<sub-workflow><app-path>{app_path}</app-path></sub-workflow>"
    return WORKFLOW.format(ok="end").replace("<java><main-class>Crawl</main-class></java>", body)


@pytest.mark.parametrize("said", ["inner", "inner/workflow.xml", "../there/inner"])
def test_a_sub_workflow_in_a_folder_beside_needs_no_option(said, tmp_path):
    here = tmp_path / "there"
    (here / "inner").mkdir(parents=True)
    (here / "inner" / "workflow.xml").write_text(WORKFLOW.format(ok="index"))
    (here / "workflow.xml").write_text(nested(f"${{wf:appPath()}}/{said}"))

    result = run("import", str(here / "workflow.xml"))

    assert result.exit_code == 0, result.stderr
    assert "crawl.index:" in result.stdout


def test_a_sub_workflow_that_is_not_beside_is_named_with_where_it_was_looked_for(tmp_path):
    outer = tmp_path / "workflow.xml"
    outer.write_text(nested("${wf:appPath()}/inner"))

    result = run("import", str(outer))

    assert result.exit_code == 1
    assert "and there is none" in result.stderr
    assert f"put it at `inner` in the folder of {outer}" in " ".join(result.stderr.split())


def test_a_workflow_that_lies_in_itself_is_refused(tmp_path):
    outer = tmp_path / "workflow.xml"
    outer.write_text(nested("${wf:appPath()}/."))

    result = run("import", str(outer))

    assert result.exit_code == 1
    assert f"`crawl` is the workflow in {outer}, in which it lies itself" in result.stderr


NAMED = WORKFLOW.format(ok="end").replace("<main-class>Crawl<", "<main-class>Größe<")


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("ISO-8859-1", "latin-1"),
        ("windows-1252", "cp1252"),
        ("UTF-8", "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("UTF-16", "utf-16"),
    ],
)
def test_the_encoding_that_a_workflow_declares_is_honoured(declared, encoding, tmp_path):
    path, flow = tmp_path / "workflow.xml", str(tmp_path / "flow.yaml")
    head = f'<?xml version="1.0" encoding="{declared}"?>\n'
    path.write_bytes((head + NAMED).encode(encoding))

    assert run("import", str(path), "-o", flow).exit_code == 0
    exported = run("export", flow).stdout

    assert "<main-class>Größe</main-class>" in exported
    assert exported.startswith('<?xml version="1.0" encoding="UTF-8"?>')


@pytest.mark.parametrize(
    ("declared", "encoding", "message"),
    [
        ("UTF-7", "ascii", "the encoding `UTF-7` can't be read here"),
        ("rot13", "ascii", "the encoding `rot13` can't be read here"),
        ("UTF-16", "ascii", "the encoding `UTF-16` can't be read here"),
        ("ISO-8859-1", "utf-8-sig", "the file begins as UTF-8 does"),
        ("UTF-8", "latin-1", "byte 0xf6 is not UTF-8"),
        ("ascii", "utf-8", "byte 0xc3 is not ASCII"),
    ],
)
def test_a_workflow_of_no_such_encoding_is_refused(declared, encoding, message, tmp_path):
    path = tmp_path / "workflow.xml"
    text = f'<?xml version="1.0" encoding="{declared}"?>\n{NAMED}'
    path.write_bytes(text.encode(encoding, "xmlcharrefreplace"))

    result = run("import", str(path))

    assert result.exit_code == 1
    assert message in result.stderr


def test_a_workflow_itself_is_exported_without_what_was_added(path, tmp_path):
    plain = tmp_path / "plain.xml"

    assert run("export", path, "--output", str(plain)).exit_code == 0
    assert plain.read_text() == PLAIN
    assert json.loads(run("export", path, "--json").stdout)["text"] == PLAIN


def test_a_dataflow_that_never_was_a_workflow_is_refused(tmp_path):
    flow = tmp_path / "flow.yaml"
    flow.write_text("name: n\nactions: {a: {step: 'm:f', after: b}, b: {step: 'm:f'}}\n")

    result = run("export", str(flow))

    assert result.exit_code == 1
    assert f"{flow}:1:1: error: dataflow `n` was not imported" in result.stderr
    assert json.loads(run("export", str(flow), "--json").stdout)["in_order"] is False


def test_a_choice_that_is_no_pair_is_refused(path):
    result = run("import", path, "--decision", "any")

    assert result.exit_code == 2
    assert "`any` is not NAME=VALUE" in result.stderr


def test_a_file_that_is_not_there_is_told(tmp_path):
    result = run("import", str(tmp_path / "none.xml"))

    assert result.exit_code == 1
    assert "the file can't be read: No such file or directory" in result.stderr
