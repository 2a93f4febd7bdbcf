import pytest

from headgate.engine import (
    AllOf,
    AnyOf,
    BoundReached,
    BoundResult,
    ConditionError,
    Dimension,
    PredecessorsResult,
    VectorResult,
    all_of,
    at_least_one,
    bounds_of,
    majority,
    parse_condition,
    write_condition,
)
from headgate.engine.spec.conditions import evaluate, missing, reasons

A, B, C = map(BoundReached, "abc")


def result(name: str, *, reached: bool) -> BoundResult:
    words = f"{name} reached" if reached else f"{name} is low"
    vector = VectorResult(
        Dimension.TIME, 1.0, 2.0, "s", reached, words, "" if reached else f"more {name}"
    )
    return BoundResult(name, "container", reached, (vector,))


def holds(condition, reached: str) -> bool:
    bounds = {n: result(n, reached=n in reached) for n in bounds_of(condition)}
    return evaluate(condition, bounds).reached


def test_and_binds_tighter_than_or():
    assert parse_condition("a or b and c") == AnyOf((A, AllOf((B, C))))
    assert parse_condition("a or b and c") == (A | B & C)


def test_parentheses_change_the_order():
    assert parse_condition("(a or b) and c") == AllOf((AnyOf((A, B)), C)) == (A | B) & C


def test_operators_of_one_kind_are_one_list():
    assert parse_condition("a and b and c") == AllOf((A, B, C)) == A & B & C
    assert AnyOf((A, B, C)) == (A | B | C)


def test_words_are_not_case_sensitive():
    assert parse_condition("a AND b Or c") == parse_condition("a and b or c")


@pytest.mark.parametrize(
    "text", ["a", "a and b", "a or b and c", "(a or b) and c", "a and (b or c and (a or b))"]
)
def test_what_is_written_reads_back(text):
    assert write_condition(parse_condition(text)) == text


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 0, "expected a bound"),
        ("a and", 5, "expected a bound"),
        ("a b", 2, "expected 'and' or 'or'"),
        ("(a or b", 7, r"expected '\)' to close the '\(', found the end"),
        ("(a b", 3, r"expected '\)' to close the '\(', found 'b'"),
        ("a or or b", 5, "expected a bound"),
        ("a or ", 4, r"expected a bound or '\(', found the end"),
        ("a or and b", 5, "expected a bound"),
        ("a)", 1, "expected 'and' or 'or'"),
    ],
)
def test_a_wrong_expression_says_where_and_what_was_expected(text, position, expected):
    with pytest.raises(ConditionError, match=expected) as error:
        parse_condition(text)
    assert error.value.position == position


def test_all_needs_every_bound():
    assert holds(all_of("abc"), "abc")
    assert not holds(all_of("abc"), "ab")


def test_at_least_one_needs_one():
    assert holds(at_least_one("abc"), "c")
    assert not holds(at_least_one("abc"), "")


@pytest.mark.parametrize(("bounds", "enough", "short"), [("abc", "ab", "a"), ("abcd", "abc", "ab")])
def test_majority_is_more_than_half(bounds, enough, short):
    assert holds(majority(bounds), enough)
    assert not holds(majority(bounds), short)


def test_the_papers_expression_runs_for_the_first_or_for_both_others():
    condition = A | B & C
    assert holds(condition, "a")
    assert holds(condition, "bc")
    assert not holds(condition, "b")


def test_reasons_are_the_reached_leaves():
    tree = evaluate(A | B & C, {n: result(n, reached=n == "a") for n in "abc"})
    assert reasons(tree) == ("a reached",)


def test_missing_says_what_each_way_needs():
    nothing = {n: result(n, reached=False) for n in "abc"}
    assert missing(evaluate(A & B, nothing)) == "more a, and more b"
    assert missing(evaluate(A | B, nothing)) == "more a, or more b"
    assert missing(evaluate(majority("abc"), nothing)) == "2 of: more a; more b; more c"


def test_missing_says_each_vector_of_a_bound():
    (time,), (other,) = (result(name, reached=False).vectors for name in "ab")
    assert missing(BoundResult("k", "c", False, (time, other))) == "more a or more b"


def test_missing_leaves_out_what_is_reached():
    assert (
        missing(evaluate(A & B, {"a": result("a", reached=True), "b": result("b", reached=False)}))
        == "more b"
    )


def test_nothing_is_missing_when_reached():
    assert missing(result("a", reached=True)) == ""


def test_a_synchronous_action_misses_its_predecessors():
    assert (
        missing(PredecessorsResult(reached=False, ended=("x",), waiting=("y", "z")))
        == "the end of y and z"
    )
