"""Which files nobody needs."""

from headgate.incremental.state import (
    WHOLE,
    BucketState,
    FileRef,
    Manifest,
    Match,
    Writer,
    unneeded,
)


def ref(name: str) -> FileRef:
    return FileRef(name, 1, b"")


def manifest(base: str, run: str, output: str) -> Manifest:
    bucket = BucketState(WHOLE, ref(base), (ref(run),))
    return Manifest("s", "v1", 3, Match.GROUP, (bucket,), outputs={"out": (ref(output),)})


def test_what_a_kept_manifest_names_is_kept_and_so_is_the_manifest():
    kept = {"m2": manifest("base", "r2", "o2")}

    assert unneeded(["base", "r1", "r2", "o1", "o2", "m1", "m2"], kept, ()) == ["r1", "o1", "m1"]


def test_what_a_living_attempt_may_be_writing_is_kept():
    living, other = Writer("s", "r", 1, "h"), Writer("s", "r", 11, "h")
    files = [one.rows_name() for one in (living, other, living)]

    assert unneeded(files, {}, [living.prefix]) == [files[1]]


def test_without_manifests_and_attempts_everything_is_garbage():
    assert unneeded(["a", "b"], {}, ()) == ["a", "b"]
    assert unneeded([], {}, ["x"]) == []
