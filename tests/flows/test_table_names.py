"""Tables in a dataflow file have the names that HBase gives them."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from headgate.flows import parse_dataflow

LETTERS = st.characters(categories=["Lu", "Ll", "Lo", "Nd"], max_codepoint=0xFFFF)


@given(st.text(LETTERS, min_size=1, max_size=6))
@example("größe")
@example("表")
@example("ns:é.x-1")
@example("_t")
def test_a_table_may_have_any_letters(table: str) -> None:
    for place in (f"{table} f:q", f"{{table: '{table}', column: 'f:q'}}"):
        text = f"name: n\ncontainers: {{c: {place}}}\nactions: {{a: {{step: 'm:f', reads: c}}}}"
        [item] = parse_dataflow(text, "flow.yaml").spec.containers[0].container.items
        assert (item.table, item.column) == (table, b"f:q")
