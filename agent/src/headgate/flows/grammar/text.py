"""Files to text, no more of them than a limit."""

from __future__ import annotations

from pathlib import Path

from headgate.flows.grammar.problems import DataflowErrors, Findings, Position


def read_text(path: Path | str, characters: int) -> str:
    """Return the text of a UTF-8 file; of one that is longer at least one character more.

    Raises:
        DataflowErrors: the file can't be read, or is not UTF-8.
    """
    findings = Findings(str(path))
    most = 4 * characters  # UTF-8 has at most four bytes for a character
    try:
        with Path(path).open("rb") as file:
            data = file.read(most + 1)
        # What is too long anyway may be cut inside of a character.
        return data.decode("utf-8-sig", "strict" if len(data) <= most else "backslashreplace")
    except OSError as error:
        reason = error.strerror or str(error)
        findings.error(Position(1, 1), f"the file can't be read: {reason}", "check the path")
        raise DataflowErrors(findings.problems) from error
    except UnicodeDecodeError as error:
        before = data[: error.start]
        at = Position(before.count(b"\n") + 1, len(before) - before.rfind(b"\n"))
        findings.error(at, f"byte 0x{data[error.start]:02x} is not UTF-8", "save the file as UTF-8")
        raise DataflowErrors(findings.problems) from error
