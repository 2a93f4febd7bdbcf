"""Files that stages read or write: what may be said of them, and what cannot be with them."""

from __future__ import annotations

from typing import Final

from headgate.engine import DEFAULT_LATE, DataflowSpec, FileFormat, FilesSpec
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.column_types import columns_kind, read_columns
from headgate.flows.grammar.kinds import Either, Key, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.tree import Entry, Scalar, Tree, entries_of, number_or_text
from headgate.flows.grammar.values import DURATION_VALUE, NAME, text_value
from headgate.flows.sections.containers.untabled import (
    Noun,
    check_names,
    untabled_difference,
    with_untabled,
)
from headgate.flows.sections.section import Draft, Section

_SCHEMES: Final = ("file", "hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss")
"""Of URIs that ``pyarrow.fs`` takes."""

COLUMN_TYPES: Final = (
    *("string", "binary", "bool", "double", "float"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("date32", "timestamp[s]", "timestamp[ms]", "timestamp[us]", "timestamp[ns]"),
)
"""Of columns: names that Arrow has for types without parts."""

_VALUE: Final = Either(
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

FILES_NOUN: Final = Noun(
    are="are files",
    kind="files",
    one="files",
    them="them",
    on="files",
    come="files come",
    uncounted="whose arrival",
    itself="open them",
    columns="they",
    such_as="{url: string, clicks: int64}",
    of_its_own="files of its own: what is there is of one flow",
    place="place",
    place_of_its_own="a directory",
)


def _files(tree: Tree, findings: Findings) -> FilesSpec:
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
        duration_seconds(number_or_text(late)) if isinstance(late, Scalar) else DEFAULT_LATE,
    )


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


def _read(written: Tree | None, draft: Draft) -> dict[str, FilesSpec]:
    return {
        name: _files(entry.value, draft.findings) for name, entry in entries_of(written).items()
    }


def _specify(draft: Draft, spec: DataflowSpec) -> DataflowSpec:
    check_names(draft, "files", (("containers", "container"), ("topics", "topic")))
    return with_untabled(spec, draft[FILES].keys())


FILES: Final = Section(
    "files",
    Key(
        MapOf(_VALUE, "files by name", NAME, "files"),
        "directories of files that stages read or write, named in `reads` and `writes`",
    ),
    _read,
    _specify,
    difference=untabled_difference(FILES_NOUN, lambda files: files.location),
)
