"""Files that stages read or write: what may be said of them, and what cannot be with them."""

from __future__ import annotations

from typing import Final

from headgate.engine import DEFAULT_LATE, FileFormat, FilesSpec
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.column_types import columns_kind, read_columns
from headgate.flows.grammar.kinds import Either, Key, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.tree import Entry, Scalar, Tree
from headgate.flows.grammar.values import DURATION_VALUE, text_value

_SCHEMES: Final = ("file", "hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss")
"""Of URIs that ``pyarrow.fs`` takes."""

COLUMN_TYPES: Final = (
    *("string", "binary", "bool", "double", "float"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("date32", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"),
)
"""Of columns: names that Arrow has for types without parts."""

FILES = Either(
    "a directory or a URI, or a mapping with `uri`",
    (
        text_value("a directory or a URI"),
        RecordOf(
            "the files",
            {
                "uri": Key(
                    text_value("a directory or a URI"),
                    "a directory, relative to this file, or a URI such as `hdfs://…` or `s3://…`",
                    required=True,
                ),
                "format": Key(
                    Single("`parquet`, `csv` or `json`", words=tuple(FileFormat)),
                    "what is in the files; `csv` has a line of names, `json` an object a line; "
                    "default `parquet`, which is also what stages write",
                ),
                "columns": Key(
                    columns_kind(COLUMN_TYPES, r"[^_][\s\S]*"),
                    "of files that are read: the columns that the stage gets, with their types",
                ),
                "late": Key(
                    DURATION_VALUE,
                    "how much older than the newest a file may be when it comes; default 1 h",
                ),
            },
        ),
    ),
)
"""Files: a place, or a mapping."""


def read_files(tree: Tree, findings: Findings) -> FilesSpec:
    """Return the files that a matched tree describes."""
    if isinstance(tree, Scalar):
        return FilesSpec(_location(tree, findings))
    if not isinstance(tree, yaml_tree.Mapping):
        return FilesSpec("")
    uri, written, late = tree.get("uri"), tree.get("format"), tree.get("late")
    return FilesSpec(
        _location(uri, findings) if isinstance(uri, Scalar) else "",
        FileFormat(written.text) if isinstance(written, Scalar) else FileFormat.PARQUET,
        read_columns(tree.get("columns"), findings),
        _seconds(late) if isinstance(late, Scalar) else DEFAULT_LATE,
    )


def _seconds(one: Scalar) -> float:
    return duration_seconds(one.value if isinstance(one.value, int | float) else one.text)


def _location(written: Scalar, findings: Findings) -> str:
    scheme, mark, _ = written.text.partition("://")
    if mark and scheme not in _SCHEMES:
        findings.error(
            written.at,
            f"nobody knows the file system of `{scheme}://`",
            f"write a directory, or a URI of {', '.join(_SCHEMES)}",
        )
    return written.text.rstrip("/") or written.text


def check_written_files(
    name: str, files: FilesSpec, writer: str, entry: Entry, findings: Findings
) -> None:
    """Note what is said of files that has no meaning where an action writes them."""
    if files.format is not FileFormat.PARQUET:
        findings.error(
            entry.key.at,
            f"`{writer}` writes the files `{name}`, as {files.format}",
            "leave `format` out: stages write Parquet",
        )
    if files.columns:
        findings.error(
            entry.key.at,
            f"`{writer}` writes the files `{name}`, whose columns are those of its flow",
            "leave `columns` out",
        )
