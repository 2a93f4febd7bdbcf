import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine.spec.codecs import LAYOUTS, Codec, CodecName, decode_one, decoder_of
from headgate.engine.spec.layouts import Order


@pytest.mark.parametrize(
    ("codec", "value", "number"),
    [
        # org.apache.hadoop.hbase.util.Bytes.toBytes
        (CodecName.INT32, "fffffff9", -7),
        (CodecName.INT32, "7fffffff", 2**31 - 1),
        (CodecName.INT16, "8000", -(2**15)),
        (CodecName.FLOAT32, "3e200000", 0.15625),
        (CodecName.BOOLEAN, "ff", 1),
        (CodecName.BOOLEAN, "00", 0),
        # org.apache.phoenix.schema.types: PLong, PInteger, PSmallint, PTinyint, PDouble, PFloat
        (CodecName.PHOENIX_INT64, "8000000000000001", 1),
        (CodecName.PHOENIX_INT64, "7fffffffffffffff", -1),
        (CodecName.PHOENIX_INT32, "80000000", 0),
        (CodecName.PHOENIX_INT32, "7ffffff9", -7),
        (CodecName.PHOENIX_INT16, "0000", -(2**15)),
        (CodecName.PHOENIX_INT8, "ff", 127),
        (CodecName.PHOENIX_FLOAT64, "8000000000000001", 0.0),
        (CodecName.PHOENIX_FLOAT64, "bff0000000000001", 1.0),
        (CodecName.PHOENIX_FLOAT64, "4010000000000000", -1.0),
        (CodecName.PHOENIX_FLOAT32, "be200001", 0.15625),
        (CodecName.PHOENIX_FLOAT32, "41e00000", -0.15625),
        (CodecName.PHOENIX_BOOLEAN, "01", 1),
    ],
)
def test_bytes_are_those_of_java(codec, value, number):
    layout = LAYOUTS[codec]
    assert decode_one(decoder_of(Codec(codec)), bytes.fromhex(value)) == number
    assert layout.pack(np.array([number])) == [bytes.fromhex(value)]


@given(st.sampled_from(list(LAYOUTS)), st.data())
def test_a_column_is_read_and_written_as_its_values_are(codec, data):
    layout = LAYOUTS[codec]
    value = st.binary(min_size=layout.width, max_size=layout.width)
    values = data.draw(st.lists(value, min_size=1, max_size=4))
    read = layout.reader()
    numbers = layout.column(values)

    assert numbers is not None
    assert [repr(float(number)) for number in numbers.tolist()] == [
        repr(float(read(value))) for value in values
    ]
    if not layout.boolean and not np.isnan(numbers.astype(float)).any():
        assert layout.pack(numbers) == values


@pytest.mark.parametrize("codec", LAYOUTS)
def test_bytes_of_another_width_are_no_number(codec):
    width = LAYOUTS[codec].width
    for other in (b"", b"\x01" * (width - 1), b"\x01" * (width + 1)):
        if len(other) != width:
            with pytest.raises(struct.error):
                LAYOUTS[codec].reader()(other)
            assert LAYOUTS[codec].column([other]) is None


SORTED = [layout for layout in LAYOUTS.values() if layout.order is Order.SORTED]


@given(st.sampled_from(SORTED), st.data())
def test_phoenix_orders_bytes_as_numbers(layout, data):
    numbers = (
        st.integers(*layout.limits())
        if layout.whole
        else st.floats(allow_nan=False, width=8 * layout.width)
    )
    one, other = data.draw(numbers), data.draw(numbers)
    packed = layout.pack(np.array([one, other]))
    assert (packed[0] < packed[1]) == (one < other) or one == other


JAVA = {CodecName.INT64: "q", CodecName.INT32: "i", CodecName.INT16: "h", CodecName.FLOAT32: "f"}
NUMBERS = {"f": st.floats(width=32, allow_nan=False, allow_infinity=False)}


@given(st.sampled_from(list(JAVA)), st.data())
def test_every_number_that_java_writes_is_read(codec, data):
    half = 1 << 8 * struct.calcsize(JAVA[codec]) - 1
    number = data.draw(NUMBERS.get(JAVA[codec], st.integers(-half, half - 1)))
    written = struct.pack(">" + JAVA[codec], number)
    assert decode_one(decoder_of(Codec(codec)), written) == float(number)
