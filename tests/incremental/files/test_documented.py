"""What the documentation shows of files runs, and reads what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from scripted_runs import ScriptedFlow

from headgate.flows import parse_dataflow

DOCS = Path(__file__).parents[3] / "docs"


def shown(file: str, heading: str, language: str) -> list[str]:
    """The examples in one language below a heading."""
    text = (DOCS / file).read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


def test_the_stage_of_the_documentation_counts_and_what_reads_it_finds_all(tmp_path: Path) -> None:
    [text] = shown("dataflow-file.md", "Files", "yaml")
    [stage] = shown("stages.md", "Files that are read", "python")
    by_headgate, by_anybody = shown("stages.md", "Files for everybody", "python")
    place = str(tmp_path / "totals")
    files = parse_dataflow(text.replace("/srv", str(tmp_path)), "clicks.yaml").files
    names: dict[str, Any] = {"pa": pa}
    exec(stage, names)
    flow = ScriptedFlow(tmp_path / "stages", [], pa.schema([]))
    request = flow.request(sources={"clicks": files["clicks"]}, sinks={"totals": files["totals"]})
    (tmp_path / "clicks").mkdir()
    for number in range(2):
        rows = [{"url": url, "n": number + 1} for url in "aab"]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "clicks" / f"{number}.json").write_text(text)
        flow.run("count", names["totals"], request)

    read: dict[str, Any] = {}
    exec(by_headgate.replace("/srv/totals", place), read)
    exec(by_anybody.replace("/srv/totals", place), read)
    rows = read["published"].arrow().to_pylist()
    assert [(row["url"], row["n"]) for row in rows if row["url"] == "a"] == [("a", 2), ("a", 6)]
    assert read["paths"] == read["published"].files()
    assert sum(len(pq.read_table(path)) for path in read["paths"]) == len(rows)
