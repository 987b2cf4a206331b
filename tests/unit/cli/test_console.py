"""What users stored can't drive the terminal, and different ids never look the same."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diarist.adapters.cli.console import one_line, safe, show_id


@pytest.mark.parametrize("id", ["user-42", "a/b:c%20", "a b", "Zoë", "日本", "🐈", "a'b", "[red]x[/red]"])
def test_a_usual_id_is_shown_as_it_is(id: str) -> None:
    assert show_id(id) == id


@pytest.mark.parametrize(
    "id", [" a", "a ", "a  b", "a\tb", "a\x00", "'a'", '"a"', "e\u0301", "a\u200b", "a\u202eb", "\xa0a", "\x1b[2J"]
)
def test_an_unusual_id_is_shown_in_quotes(id: str) -> None:
    shown = show_id(id)
    assert shown[0] in "'\""
    assert shown.isascii()
    assert shown.isprintable()


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_ids_are_shown_differently(one: str, other: str) -> None:
    assert (show_id(one) == show_id(other)) == (one == other)


@given(st.text(min_size=1))
def test_an_id_and_its_normal_form_are_shown_differently(id: str) -> None:
    composed = unicodedata.normalize("NFC", id)
    assert (show_id(id) == show_id(composed)) == (id == composed)


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_safe_text_has_no_control_characters(text: str) -> None:
    shown = safe(text)
    shown.encode()
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"]


def test_escapes_stay_readable() -> None:
    assert safe("a\x1b[31mred\x07\u202e\ud800\n\tb") == "a\\x1b[31mred\\x07\\u202e\\ud800\n\tb"
    assert one_line("a\n  b\x00") == "a b\\x00"
