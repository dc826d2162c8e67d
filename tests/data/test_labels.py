import pytest

from capstext.data.labels import labels_in


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        *(("a", ["a"]), (" a ", ["a"]), ("", []), (None, []), (3, ["3"]), (3.0, ["3"]), ("a|b", ["a", "b"])),
        *(
            ("a; b;a", ["a", "b"]),
            ('["a", "b;c"]', ["a", "b;c"]),
            ("[a", ["[a"]),
            (["a", 1], ["a", "1"]),
            ("|", []),
        ),
    ],
)
def test_labels_of_a_cell(cell, labels):
    assert labels_in(cell, separated=True) == labels


def test_a_separator_in_a_string_of_json_is_part_of_the_label():
    assert labels_in("R&D; other", separated=False) == ["R&D; other"]
