"""Files to text, no more of them than a limit."""

from __future__ import annotations

from pathlib import Path

from headgate.flows.grammar.problems import DataflowErrors, Findings, Position

_WIDEST = 4  # bytes of a character in any encoding


def read_text(path: Path | str, characters: int) -> str:
    """Return the text of a UTF-8 file; of one that is longer at least one character more.

    Raises:
        DataflowErrors: the file can't be read, or is not UTF-8.
    """
    return decoded(read_bytes(path, characters), "utf-8-sig", path, characters)


def read_bytes(path: Path | str, characters: int) -> bytes:
    """Return the bytes of a file; of one that has more than so many characters not all.

    Raises:
        DataflowErrors: the file can't be read.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(_WIDEST * characters + 1)
    except OSError as error:
        findings = Findings(str(path))
        reason = error.strerror or str(error)
        findings.error(Position(1, 1), f"the file can't be read: {reason}", "check the path")
        raise DataflowErrors(findings.problems) from error


def decoded(data: bytes, encoding: str, path: Path | str, characters: int) -> str:
    """Return the text of a file's bytes, as ``read_bytes`` returned them for that many characters.

    Raises:
        DataflowErrors: they are not of this encoding.
    """
    try:
        # What is too long anyway may be cut inside of a character.
        whole = len(data) <= _WIDEST * characters
        return data.decode(encoding, "strict" if whole else "backslashreplace")
    except UnicodeDecodeError as error:
        findings = Findings(str(path))
        name = encoding.removesuffix("-sig").upper()
        before = data[: error.start]
        at = Position(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        findings.error(
            at, f"byte 0x{data[error.start]:02x} is not {name}", "save the file as UTF-8"
        )
        raise DataflowErrors(findings.problems) from error
