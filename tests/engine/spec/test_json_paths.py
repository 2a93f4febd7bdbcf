import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.engine import Codec, CodecName, canonical_path, decode_one, decoder_of
from headgate.engine.spec.json_paths import path_steps


def read(path, document):
    return decode_one(decoder_of(Codec(CodecName.JSON, path)), document)


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("$", b"5"),
        ("a.b.0", b'{"a":{"b":[5]}}'),
        ("$.a[-1]", b'{"a":[1,5]}'),
        ('$["pm2.5"]', b'{"pm2.5":5}'),
        ("$['temp (C)'].now", b'{"temp (C)":{"now":5}}'),
        ('$["a\\"b\\\\"]', b'{"a\\"b\\\\":5}'),
        ('$["größe"]', '{"größe":5}'.encode()),
        ('$[""]', b'{"":5}'),
        ("a.0", b'{"a":{"0":5}}'),
        ('a["0"]', b'{"a":{"0":5}}'),
        ('a["x]y"]', b'{"a":{"x]y":5}}'),
    ],
)
def test_a_path_leads_to_a_number(path, document):
    assert read(path, document) == 5
    assert read(canonical_path(path), document) == 5


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ('a["0"]', b'{"a":[5]}'),
        ("a[-2]", b'{"a":[5]}'),
        ("a.x", b'{"a":[5]}'),
        ("a.0", b'{"a":"5"}'),
        ("a", b"[5]"),
    ],
)
def test_a_path_that_leads_nowhere_has_no_number(path, document):
    assert read(path, document) != read(path, document)


@pytest.mark.parametrize(
    ("path", "spelling"),
    [
        ("$.a.b[0]", "a.b.0"),  # as it has always been stored
        ("$", ""),
        ("$['a'][\"b\"]", "a.b"),
        ('$["pm2.5"].a', '["pm2.5"].a'),
        ("a[-1]", "a.-1"),
        ('["0"]', '["0"]'),
    ],
)
def test_a_path_has_one_spelling(path, spelling):
    assert canonical_path(path) == spelling


@given(st.lists(st.text(max_size=5) | st.integers(-9, 9), max_size=4))
def test_any_keys_and_indices_make_a_path(steps):
    def written(step):
        if isinstance(step, int):
            return f"[{step}]"
        return '["' + step.replace("\\", "\\\\").replace('"', '\\"') + '"]'

    path = canonical_path("$" + "".join(map(written, steps)))
    assert [key if index is None else index for key, index in path_steps(path)] == steps


@pytest.mark.parametrize("path", ["$.", "$..a", '$["a', "$['a]", "$[a b", "a['x'y']", "$[]"])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="no JSON path"):
        decoder_of(Codec(CodecName.JSON, path))


@pytest.mark.parametrize(
    ("document", "readable"),
    [
        (b'{"v":1,"a":' + b"[" * 255 + b"]" * 255 + b"}", True),
        (b'{"v":1,"a":' + b"[" * 256 + b"]" * 256 + b"}", False),
        (b'{"v":1,"a":[' + b",".join([b"[]"] * 9_000) + b"]}", True),
        (b'{"v":1,"a":"' + b"[" * 9_000 + b'"}', True),
        (b'{"v":1,"a":"\\"' + b"[" * 9_000 + b'"}', True),
    ],
)
def test_a_document_has_at_most_256_levels(document, readable):
    assert (read("v", document) == 1) is readable


@given(st.integers(1, 1_200))
def test_of_any_depth_documents_are_read_up_to_256_levels(depth):
    document = b'{"v":1,"a":' + b"[" * depth + b"]" * depth + b"}"
    assert (read("v", document) == 1) is (depth < 256)
