"""A transport for sessions that are measured without a network."""

from __future__ import annotations


class EndlessTransport:
    """A transport that takes everything and gives it to nobody."""

    def write(self, data: bytes) -> None:
        """Take bytes."""

    def is_closing(self) -> bool:
        """Stay open."""
        return False

    def get_write_buffer_size(self) -> int:
        """Keep nothing."""
        return 0

    def pause_reading(self) -> None:
        """Read on."""

    def resume_reading(self) -> None:
        """Read on."""

    def get_extra_info(self, name: str) -> object:
        """Come from one host, without certificate."""
        return ("10.1.2.3", 4567) if name == "peername" else None
