import pytest

from capstext.comparison.report import wording


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (wording.percent(0.7834), "78.3"),
        (wording.percent(0.9975), "99.75"),
        (wording.percent(1.0), "100.0"),
        (wording.percent(None), "–"),
        (wording.plus_minus(0.783, 0.0094), "78.3 ± 0.9"),
        (wording.plus_minus(0.783, None), "78.3"),
        (wording.points(-0.0061), "−0.6"),
        (wording.points(0.012), "+1.2"),
        (wording.points(-0.0001), "0.0"),
        (wording.chance(0.0321), ".032"),
        (wording.chance(0.0000001), "< .001"),
        (wording.chance(1.0), "1"),
        (wording.chance(None), "–"),
        (wording.count(800), "800"),
        (wording.count(310_000), "310K"),
        (wording.count(2_050_000), "2.0M"),
        (wording.seconds(1.23), "1.2 s"),
        (wording.seconds(95), "95.0 s"),
        (wording.seconds(180), "3.0 min"),
        (wording.seconds(9000), "2.5 h"),
        (wording.memory(400_000_000), "400 MB"),
        (wording.per_second(3214.7), "3,210"),
        (wording.listed(["a", "b", "c"]), "a, b and c"),
        (wording.listed(["a"]), "a"),
    ],
)
def test_numbers_are_printed_as_people_read_them(said, expected):
    assert said == expected
