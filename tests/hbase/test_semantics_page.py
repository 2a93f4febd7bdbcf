"""docs/reference/hbase-semantics.md names tests that are there, and all tests of its facts."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "hbase-semantics.md").read_text()
FACTS = {
    "facts": ROOT / "tests" / "stack" / "semantics" / "test_hbase_facts.py",
    "log": ROOT / "tests" / "stack" / "semantics" / "test_write_ahead_log.py",
    "kafka": ROOT / "tests" / "stack" / "semantics" / "test_kafka_facts.py",
    "spark": ROOT / "tests" / "spark" / "source" / "test_spark_facts.py",
}
NAMED = re.findall(r"`([^`\s]+)::(\w+)`", PAGE)


def named_in(path: Path) -> set[str]:
    return set(re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE))


def test_every_test_that_the_page_names_is_there() -> None:
    assert NAMED
    for place, test in NAMED:
        assert test in named_in(FACTS.get(place, ROOT / place)), f"{place}::{test}"


def test_every_fact_that_is_tested_has_its_line() -> None:
    for place, path in FACTS.items():
        assert {test for where, test in NAMED if where == place} == named_in(path)


def test_every_script_that_the_page_links_is_there() -> None:
    linked = re.findall(r"\]\(../../(findings/[^)]+)\)", PAGE)
    assert linked
    assert all((ROOT / path).is_file() for path in linked)


def test_every_line_of_a_table_names_a_test() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and "|---" not in line]
    facts = [line for line in lines if not line.endswith("| headgate | test |")]
    assert all(re.search(r"`[^`\s]+::\w+` \|$", line) for line in facts)
