import pytest

from capstext.data.columns import guess_columns


@pytest.mark.parametrize(
    ("row", "text", "label"),
    [
        ({"label": 1, "text": "a"}, "text", "label"),
        ({"Sentence": "a", "LABEL": "b"}, "Sentence", "LABEL"),
        ({"id": "a long identity", "stars": "5", "said": "fine film"}, "said", "stars"),
        ({"title": "t", "review": "r", "category": "c"}, "review", "category"),
        ({"headline": "a long headline", "url": "u", "when": "w"}, "headline", None),
        ({"text": "a"}, "text", None),
    ],
)
def test_columns_are_guessed_by_name_and_then_by_length(row, text, label):
    columns = guess_columns([row], file="a.csv")
    assert (columns.text, columns.label, columns.found) == (text, label, tuple(row))
