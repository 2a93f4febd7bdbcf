"""Files that stages read or write: what may be said of them, and what cannot be with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headgate.engine import DEFAULT_LATE, FileFormat, FilesSpec
from headgate.flows.grammar import tree as yaml_tree
from headgate.flows.grammar.kinds import Either, Key, MapOf, RecordOf, Single
from headgate.flows.grammar.problems import Findings
from headgate.flows.grammar.quantities import duration_seconds
from headgate.flows.grammar.tree import Entry, Scalar, Tree
from headgate.flows.grammar.values import DURATION_VALUE, text_value

_SCHEMES: Final = ("file", "hdfs", "viewfs", "s3", "gs", "gcs", "abfs", "abfss")
"""Of URIs that ``pyarrow.fs`` takes."""

_TYPES: Final = (
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
                    MapOf(
                        Single(
                            "the name of a type",
                            words=_TYPES,
                            rule=f"types are Arrow's: {', '.join(_TYPES)}",
                        ),
                        "types by column",
                        r"[^_][\s\S]*",
                        "column",
                        at_least=1,
                    ),
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
    columns = tree.get("columns")
    named = columns.entries if isinstance(columns, yaml_tree.Mapping) else {}
    return FilesSpec(
        _location(uri, findings) if isinstance(uri, Scalar) else "",
        FileFormat(written.text) if isinstance(written, Scalar) else FileFormat.PARQUET,
        {name: one.value.text for name, one in named.items() if isinstance(one.value, Scalar)},
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


class FilesChecker:
    """Notes what is wrong with the files of a dataflow.

    Args:
        files: by name.
        entries: what is written of them, by name.
        findings: where errors go.
    """

    def __init__(
        self, files: Mapping[str, FilesSpec], entries: Mapping[str, Entry], findings: Findings
    ) -> None:
        self._files = files
        self._entries = entries
        self._findings = findings

    def check(
        self, readers: Mapping[str, tuple[str, ...]], writers: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Note what is wrong with files that actions use.

        Args:
            readers: names of actions, by files.
            writers: likewise.
        """
        for name, files in self._files.items():
            self._check_use(name, files, readers[name], writers[name])
        self._check_places({name for name in self._files if writers[name]})

    def _check_use(
        self, name: str, files: FilesSpec, readers: tuple[str, ...], writers: tuple[str, ...]
    ) -> None:
        at = self._entries[name].key.at
        if readers and writers:
            self._findings.error(
                at,
                f"`{writers[0]}` writes the files `{name}` and `{readers[0]}` reads them",
                f"have `{readers[0]}` read the flow itself: `out` of `{writers[0]}`, `in` of "
                f"`{readers[0]}`",
            )
        elif len(writers) > 1:
            self._findings.error(
                at,
                f"`{writers[0]}` and `{writers[1]}` write the files `{name}`",
                "give each of them files of its own: what is there is of one flow",
            )
        elif readers and not files.columns:
            self._findings.error(
                at,
                f"`{readers[0]}` reads the files `{name}`, and nothing says which columns they "
                "have",
                "add `columns: {name: type}`, such as `{url: string, clicks: int64}`",
            )
        elif writers:
            self._check_written(name, files, writers[0])
        elif not readers:
            self._findings.warning(at, f"no action uses files `{name}`", "remove them, or use them")

    def _check_written(self, name: str, files: FilesSpec, writer: str) -> None:
        at = self._entries[name].key.at
        if files.format is not FileFormat.PARQUET:
            self._findings.error(
                at,
                f"`{writer}` writes the files `{name}`, as {files.format}",
                "leave `format` out: stages write Parquet",
            )
        if files.columns:
            self._findings.error(
                at,
                f"`{writer}` writes the files `{name}`, whose columns are those of its flow",
                "leave `columns` out",
            )

    def _check_places(self, written: set[str]) -> None:
        known: dict[str, str] = {}
        for name, files in self._files.items():
            other = known.setdefault(files.location, name)
            if other != name and {name, other} & written:
                self._findings.error(
                    self._entries[name].key.at,
                    f"`{name}` and `{other}` are one place, {files.location}",
                    "give what is written a directory of its own",
                )
