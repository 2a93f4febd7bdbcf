"""Words of commands that people copy from messages into a shell."""

from __future__ import annotations

from shlex import quote


def shell_word(text: str) -> str:
    """Return a text as one word of a POSIX shell's command, or of bash's if it is not printable.

    Names may come from rows and files that strangers wrote: they neither end the command nor move
    the cursor of the terminal that shows it.
    """
    if text.isprintable():
        return quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def shell_argument(text: str) -> str:
    """Return a text as the last argument of a command: one that begins with ``-`` is no option."""
    return f"-- {shell_word(text)}" if text.startswith("-") else shell_word(text)


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    encoded = character.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in encoded)
