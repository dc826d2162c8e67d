"""Capsule-A and Capsule-B: the signal, the orphan, the average of branches, the stride."""

import pytest
import torch
from networks import CAPSULES, CLASSES, network, text


@pytest.mark.parametrize("name", CAPSULES)
def test_the_signal_reaches_the_class_capsules_at_initialisation(name: str) -> None:
    lengths = network(name).eval()(*text(20, 30)).sigmoid()
    assert lengths.min() > 0.01
    assert lengths.max() < 0.9


@pytest.mark.parametrize("name", CAPSULES)
def test_the_orphan_takes_a_share_and_is_never_a_class(name: str) -> None:
    embedded, mask = text(12, 20)
    with_orphan, without = network(name, orphan=True).eval(), network(name, orphan=False).eval()
    assert with_orphan(embedded, mask).shape == without(embedded, mask).shape == (2, CLASSES)
    weights = [branch.classes.route.weights.shape[0] for branch in with_orphan.branches]
    assert set(weights) == {CLASSES + 1}


def test_capsule_b_averages_the_poses_of_its_branches_then_takes_the_norm() -> None:
    model = network("capsule-b").eval()
    embedded, mask = text(12, 20)
    poses = [branch(embedded, mask).poses for branch in model.branches]
    expected = (sum(poses) / 3).norm(dim=-1)[:, :CLASSES]
    torch.testing.assert_close(model(embedded, mask).sigmoid(), expected, atol=1e-6, rtol=1e-5)


def test_the_stride_of_the_released_code_skips_every_second_ngram() -> None:
    model = network("capsule-a", stride=2, wide=False)
    features, mask = model.branches[0].ngrams(*text(9, 10))
    assert features.shape[1] == mask.shape[1] == 4
    assert mask.sum(dim=1).tolist() == [4, 4]
