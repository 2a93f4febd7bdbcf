"""The reference page has the signatures that the library has."""

from __future__ import annotations

from library_page import PAGE, library_page


def test_the_page_is_what_the_code_says() -> None:
    words = "write it anew: python tests/incremental/library/library_page.py"
    assert PAGE.read_text() == library_page(), words
