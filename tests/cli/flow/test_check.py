"""``headgate flow check`` and ``headgate flow schema``."""

import json

import pytest
from typer.testing import CliRunner

from headgate.cli.flow.commands import app

GOOD = "name: n\nactions: {a: {step: 'm:f', after: b}, b: {input: c}}\ncontainers: {c: t}\n"
WRONG = "name: n\nactions: {a: {step: steps.py}}\n"


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def run(*arguments):
    return CliRunner().invoke(app, arguments)


def test_a_file_in_order_is_told_with_what_is_in_it(written):
    path = written("good.yaml", GOOD)
    result = run("check", path)

    assert result.exit_code == 0
    assert result.stdout == f"{path}: dataflow n is in order: 2 actions, 0 bounds, 1 container\n"


def test_a_problem_is_shown_in_its_line(written):
    path = written("wrong.yaml", WRONG)
    result = run("check", path)

    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        f"{path}:2:21: error: `steps.py`: a step is a function, not a file",
        "    2 | actions: {a: {step: steps.py}}",
        "                            ^",
        "        write `module:function`, such as `steps:zones`",
        "",
        f"{path}: 1 error",
    ]


def test_warnings_do_not_fail(written):
    result = run("check", written("spare.yaml", GOOD.replace("{c: t}", "{c: t, spare: u}")))

    assert result.exit_code == 0
    assert "no action uses container `spare`" in result.stderr
    assert "1 warning" in result.stderr


def test_all_files_are_checked_and_one_wrong_fails(written):
    result = run("check", written("wrong.yaml", WRONG), written("good.yaml", GOOD))

    assert result.exit_code == 1
    assert "in order" in result.stdout


def test_json_is_one_document_with_every_problem(written):
    good, wrong = written("good.yaml", GOOD), written("wrong.yaml", WRONG)
    result = run("check", "--json", good, wrong)

    assert result.exit_code == 1
    assert json.loads(result.stdout) == [
        {"file": good, "in_order": True, "dataflow": "n", "profiles": [], "problems": []},
        {
            "file": wrong,
            "in_order": False,
            "dataflow": "",
            "profiles": [],
            "problems": [
                {
                    "file": wrong,
                    "line": 2,
                    "column": 21,
                    "message": "`steps.py`: a step is a function, not a file",
                    "cure": "write `module:function`, such as `steps:zones`",
                    "severity": "error",
                }
            ],
        },
    ]


def test_a_file_that_is_not_there_is_a_problem_without_traceback(tmp_path):
    result = run("check", str(tmp_path / "absent.yaml"))

    assert result.exit_code == 1
    assert "can't be read: No such file" in result.stderr


def test_a_directory_is_a_problem_without_traceback(tmp_path):
    result = run("check", str(tmp_path))

    assert result.exit_code == 1
    assert "can't be read: Is a directory" in result.stderr


def test_the_schema_is_json():
    assert json.loads(run("schema").stdout)["title"] == "Headgate dataflow"


@pytest.mark.parametrize(
    ("step", "message", "cure"),
    [
        ("qiuck:clean", "there is no module `qiuck` in ", "did you mean `quick:clean`?"),
        ("quick:claen", "module `quick` has no function `claen`", "did you mean `quick:clean`?"),
        ("broken:f", "module `broken` cannot be imported: ModuleNotFoundError", "install what"),
        ("loud:f", "module `loud` cannot be imported: SystemExit: 3", "correct the module"),
    ],
)
def test_a_step_that_cannot_be_called_is_found_by_importing_it(written, step, message, cure):
    written("quick.py", "print('loud')\ndef clean(run): ...\n")
    written("broken.py", "import a_module_that_nobody_has\n")
    written("loud.py", "raise SystemExit(3)\n")
    path = written("flow.yaml", GOOD.replace("m:f", step))
    result = run("check", "--imports", path)

    assert result.exit_code == 1
    assert f"{path}:2:22: error: {message}" in result.stderr
    assert cure in result.stderr
    assert run("check", path).exit_code == 0


@pytest.mark.parametrize(
    ("metric", "message"),
    [("own:Spread", None), ("own:Spraed", "module `own` has no class `Spraed`")],
)
def test_the_class_of_a_metric_is_looked_for_too(written, metric, message):
    written("m.py", "def f(run): ...\n")
    written("own.py", "class Spread: ...\n")
    bound = f'{{value: {{python: {{class: "{metric}", limit: 3}}}}}}'
    path = written("flow.yaml", GOOD.replace("after: b", f"after: b, when: {{c: {bound}}}"))
    result = run("check", "--imports", path)
    assert (result.exit_code == 0) is (message is None), result.stderr
    assert message is None or message in result.stderr


@pytest.mark.parametrize(
    ("runnable", "message"),
    [("own:turns", None), ("own:turn", "module `own` has no function `turn`")],
)
def test_the_function_of_a_runnable_is_looked_for_too(written, runnable, message):
    written("own.py", "a = b = print\ndef turns(waiting, state): ...\n")
    path = written(
        "flow.yaml",
        "name: n\ncontainers: {c: t, d: u}\nactions:\n"
        "  feed: {input: c}\n"
        "  a: {stage: 'own:a', reads: c, out: x, when: {c: {sequence: 1}}}\n"
        f"  b: {{stage: 'own:b', writes: d, in: {{x: a.x}}, runnable: {{python: '{runnable}'}}}}\n",
    )
    result = run("check", "--imports", path)
    assert (result.exit_code == 0) is (message is None), result.stderr
    assert message is None or message in result.stderr


def test_a_step_that_is_there_is_in_order(written):
    written("quick.py", "print('loud')\ndef clean(run): ...\n")
    path = written("flow.yaml", GOOD.replace("m:f", "quick:clean"))
    assert run("check", "--imports", path).exit_code == 0


def test_a_file_that_a_step_depends_on_is_looked_for(written):
    written("m.py", "def f(run): ...\n")
    path = written("flow.yaml", GOOD.replace("after: b", "after: b, depends: model.json"))

    result = run("check", "--imports", path)
    written("model.json", "1")

    assert result.exit_code == 1
    assert "error: `a` depends on `model.json`, which " in result.stderr
    assert "put the file there, or correct `depends`" in result.stderr
    assert run("check", "--imports", path).exit_code == 0


def test_dataflows_that_cannot_share_a_pool_are_found_among_the_files(written):
    pooled = GOOD + "\nspark_pool: small\n"
    one = written("one.yaml", pooled)
    same = written("same.yaml", pooled.replace("name: n", "name: m", 1))
    other = written("other.yaml", pooled.replace("name: n", "name: o", 1) + "spark: {spark.x: 1}\n")
    assert run("check", one, same).exit_code == 0

    result = run("check", one, other)

    assert result.exit_code == 1
    assert "setting 'spark.x' of spark is '1' in o and not set in n" in result.output
    assert "give this one another spark_pool" in result.output
