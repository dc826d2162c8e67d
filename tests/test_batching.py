"""Batches hold every row once, of like length, in an order that seed and epoch decide."""

import numpy as np

from capstext.batching import LengthGroupedBatches, batches_by_length, multi_hot, pad

LENGTHS = np.random.default_rng(0).integers(1, 60, 1003)


def test_an_epoch_holds_every_row_once() -> None:
    batches = LengthGroupedBatches(LENGTHS, batch_size=32, seed=1)
    rows = [row for batch in batches for row in batch]
    assert sorted(rows) == list(range(1003))
    assert len(list(batches)) == len(batches)


def test_only_the_last_batch_may_be_short() -> None:
    sizes = [len(batch) for batch in LengthGroupedBatches(LENGTHS, batch_size=32, seed=1)]
    assert set(sizes[:-1]) == {32}
    assert sizes[-1] == 1003 % 32


def test_seed_and_epoch_alone_decide_the_order() -> None:
    def epoch(seed: int, number: int) -> list[list[int]]:
        batches = LengthGroupedBatches(LENGTHS, batch_size=32, seed=seed)
        batches.set_epoch(number)
        return list(batches)

    assert epoch(1, 2) == epoch(1, 2)
    assert epoch(1, 2) != epoch(1, 3)
    assert epoch(1, 2) != epoch(2, 2)


def test_batches_need_little_padding() -> None:
    grouped = [LENGTHS[batch] for batch in LengthGroupedBatches(LENGTHS, batch_size=32, seed=0)]
    padded = sum(len(batch) * batch.max() for batch in grouped)
    assert padded < 1.1 * LENGTHS.sum()


def test_batches_for_prediction_stay_within_their_tokens() -> None:
    lengths = [*LENGTHS.tolist(), 5000]
    batches = list(batches_by_length(lengths, tokens=1000))
    assert sorted(row for batch in batches for row in batch) == list(range(1004))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[row] for row in batch) <= 1000


def test_padding_is_masked_and_an_empty_text_has_one_masked_position() -> None:
    ids, mask = pad([[5, 6, 7], [], [8]], padding_id=9)
    assert ids.tolist() == [[5, 6, 7], [9, 9, 9], [8, 9, 9]]
    assert mask.sum(dim=1).tolist() == [3, 0, 1]
    ids, mask = pad([[]], padding_id=0)
    assert ids.shape == (1, 1)
    assert not mask.any()


def test_labels_become_a_matrix_of_zeros_and_ones() -> None:
    assert multi_hot([[2], [0, 1]], classes=3).tolist() == [[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]]
