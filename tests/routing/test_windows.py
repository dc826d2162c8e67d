"""Windows hold the capsules of their places, and give every place its gradient."""

import pytest
import torch

from capstext.routing.windows import image_windows, sequence_windows


@pytest.mark.parametrize(("window", "stride"), [(1, 1), (3, 1), (3, 2), (5, 3)])
def test_sequence_windows_hold_neighbouring_positions(window: int, stride: int) -> None:
    sequence = torch.randn(2, 8, 3, 4, dtype=torch.float64, requires_grad=True)
    windows = sequence_windows(sequence, window, stride)
    starts = range(0, 8 - window + 1, stride)
    expected = torch.stack([sequence[:, s : s + window].flatten(1, 2) for s in starts], dim=1)
    torch.testing.assert_close(windows, expected)
    assert torch.autograd.gradcheck(lambda x: sequence_windows(x, window, stride), [sequence])


@pytest.mark.parametrize(("window", "stride"), [(1, 1), (2, 1), (3, 2)])
def test_image_windows_hold_neighbouring_places(window: int, stride: int) -> None:
    image = torch.randn(2, 5, 6, 2, 3, dtype=torch.float64, requires_grad=True)
    windows = image_windows(image, window, stride)
    for y in range(windows.shape[1]):
        for x in range(windows.shape[2]):
            patch = image[:, y * stride :, x * stride :][:, :window, :window]
            expected = patch.transpose(1, 2).flatten(1, 3)
            torch.testing.assert_close(windows[:, y, x], expected)
    assert torch.autograd.gradcheck(lambda x: image_windows(x, window, stride), [image])
