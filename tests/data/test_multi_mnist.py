import numpy as np
import pytest

from capstext.data.image_corpora import ImageSplit, one_hot
from capstext.data.multi_mnist import MultiMnist, anywhere, drawn, placed, transformed

GENERATOR = np.random.default_rng(0)
CODES = np.array([0] * 3 + [1] * 5 + [2] * 12)
GENERATOR.shuffle(CODES)


@pytest.fixture
def digits() -> ImageSplit:
    pixels = GENERATOR.integers(1, 256, (20, 28, 28, 1), dtype=np.uint8)
    return ImageSplit(pixels, one_hot(CODES, 4))


def test_a_pair_is_two_digits_of_different_classes_added_and_clipped(digits):
    pairs = MultiMnist(digits=digits, seed=0)
    assert len(pairs) == 20_000
    made = pairs.batch(np.arange(300))
    assert made.pixels.shape == (300, 36, 36, 1)
    assert made.parts.pixels.shape == (300, 2, 36, 36, 1)
    classes = made.parts.labels.argmax(axis=-1)
    assert (classes[:, 0] != classes[:, 1]).all()
    assert classes[:20, 0].tolist() == CODES.tolist(), "every digit begins a pair"
    assert (made.labels.sum(axis=1) == 2).all()
    for pair in range(10):
        assert set(np.flatnonzero(made.labels[pair])) == set(classes[pair])
        total = made.parts.pixels[pair, 0].astype(int) + made.parts.pixels[pair, 1]
        np.testing.assert_array_equal(made.pixels[pair], np.minimum(total, 255))


def test_the_parts_are_whole_digits_moved_by_up_to_four_pixels(digits):
    made = MultiMnist(digits=digits, seed=0).batch(np.arange(400))
    places = set()
    for index in range(400):
        rows, columns = (
            np.flatnonzero(made.parts.pixels[index, 0, :, :, 0].any(axis=axis)) for axis in (1, 0)
        )
        place = rows[0], columns[0]
        window = made.parts.pixels[index, 0, place[0] : place[0] + 28, place[1] : place[1] + 28]
        np.testing.assert_array_equal(window, digits.pixels[index % 20])
        places.add(place)
    assert {top for top, _ in places} == {left for _, left in places} == set(range(9))
    assert len(places) > 60, "both ways, independently"


def test_an_item_does_not_depend_on_its_batch_but_on_the_seed(digits):
    pairs = MultiMnist(digits=digits, seed=3)
    whole, some = pairs.batch(np.arange(50)), pairs.batch(np.array([41, 7]))
    np.testing.assert_array_equal(some.pixels, whole.pixels[[41, 7]])
    np.testing.assert_array_equal(pairs.first(50).pixels, whole.pixels)
    np.testing.assert_array_equal(MultiMnist(digits=digits, seed=3).batch(np.arange(50)).pixels, whole.pixels)
    other = MultiMnist(digits=digits, seed=4).batch(np.arange(50))
    assert (other.pixels != whole.pixels).any(axis=(1, 2, 3)).all()


def test_every_digit_of_the_other_classes_is_an_equally_likely_partner(digits):
    pairs = MultiMnist(digits=digits, seed=0)
    indices = np.arange(20_000)
    first = indices % 20
    chosen = pairs._partner(first, indices)
    zeros = chosen[CODES[first] == 0]
    counts = np.bincount(zeros, minlength=20)
    assert counts[CODES == 0].tolist() == [0, 0, 0]
    assert counts[CODES != 0].min() > 120  # of 3,000 / 17 = 176, deviation 13
    assert counts[CODES != 0].max() < 240


def test_pairs_beyond_the_last_and_of_one_class_are_refused(digits):
    pairs = MultiMnist(digits=digits, seed=0, pairs=2)
    assert len(pairs) == 40
    with pytest.raises(IndexError, match="indices 0 to 40 of 40 pairs"):
        pairs.batch(np.arange(41))
    with pytest.raises(ValueError, match="two classes"):
        MultiMnist(digits=digits.select(CODES == 1), seed=0)


def test_shifted_digits_are_whole_anywhere_and_the_same_every_time(digits):
    made = anywhere(digits, size=40, seed=0)
    assert made.pixels.shape == (20, 40, 40, 1)
    np.testing.assert_array_equal(made.pixels.sum(axis=(1, 2, 3)), digits.pixels.sum(axis=(1, 2, 3)))
    np.testing.assert_array_equal(made.labels, digits.labels)
    np.testing.assert_array_equal(anywhere(digits, size=40, seed=0).pixels, made.pixels)
    assert (anywhere(digits, size=40, seed=1).pixels != made.pixels).any()


def test_transformed_digits_keep_their_ink_inside_and_differ():
    square = np.zeros((28, 28, 1), dtype=np.uint8)
    square[4:24, 4:24] = 200  # as large as a digit of MNIST
    digits = ImageSplit(np.stack([square] * 200), one_hot(np.zeros(200, dtype=np.int64), 2))
    made = transformed(digits, size=40, seed=0)
    assert made.pixels.shape == (200, 40, 40, 1)
    ink = made.pixels.sum(axis=(1, 2, 3)) / square.sum()
    assert 0.6 < ink.min() < 0.8, "sides of 0.8 to 1.2, and nothing is cut off"
    assert 1.2 < ink.max() < 1.5
    assert len(np.unique(made.pixels.reshape(200, -1), axis=0)) == 200
    np.testing.assert_array_equal(transformed(digits, size=40, seed=0).pixels, made.pixels)
    centres = np.array([np.argwhere(image[:, :, 0]).mean(axis=0) for image in made.pixels])
    assert (centres.std(axis=0) > 2).all(), "they move, too"


def test_placed_images_stand_where_they_should():
    pixels = np.arange(1, 9, dtype=np.uint8).reshape(1, 2, 2, 2)
    canvas = placed(pixels, np.array([1]), np.array([2]), height=4, width=5)
    np.testing.assert_array_equal(canvas[:, 1:3, 2:4], pixels)
    assert canvas.sum() == pixels.sum()


def test_draws_are_even_and_independent():
    indices = np.arange(90_000)
    first, second = (drawn(indices, seed=0, draw=draw, below=9) for draw in (0, 1))
    table = np.bincount(first * 9 + second, minlength=81)
    assert np.abs(table - 90_000 / 81).max() < 5 * (90_000 / 81) ** 0.5
    follows = np.bincount(first[:-1] * 9 + first[1:], minlength=81)
    assert np.abs(follows - 90_000 / 81).max() < 5 * (90_000 / 81) ** 0.5
    assert (drawn(indices, seed=1, draw=0, below=9) != first).mean() > 0.8
