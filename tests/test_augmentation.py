import pytest
import torch

from capstext.augmentation import affine, brightness_and_contrast, centre_crop, crops, shift


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_a_shift_moves_each_image_by_its_own_number_of_pixels_and_fills_with_zeros():
    pixels = torch.rand(500, 2, 5, 7) + 0.1
    moved = shift(pixels, most=2, generator=seeded())
    places = set()
    padded = torch.nn.functional.pad(pixels, (2, 2, 2, 2))
    for before, after in zip(padded, moved, strict=True):
        fits = [
            (top, left)
            for top in range(5)
            for left in range(5)
            if torch.equal(before[:, top : top + 5, left : left + 7], after)
        ]
        assert len(fits) == 1
        places.add(fits[0])
    assert len(places) == 25, "every shift occurs"


def test_no_shift_leaves_the_images_alone_and_the_given_ones_are_never_changed():
    pixels = torch.rand(8, 1, 6, 6)
    before = pixels.clone()
    assert torch.equal(shift(pixels, most=0), pixels)
    shift(pixels, most=2).zero_()
    assert torch.equal(pixels, before)


@pytest.mark.parametrize(
    "change",
    [
        lambda pixels, generator: shift(pixels, most=2, generator=generator),
        lambda pixels, generator: crops(pixels, size=8, generator=generator),
        lambda pixels, generator: affine(pixels, translation=2.0, generator=generator),
        lambda pixels, generator: brightness_and_contrast(pixels, generator=generator),
    ],
    ids=["shift", "crops", "affine", "brightness"],
)
def test_the_generator_decides_and_pixels_stay_between_0_and_1(change):
    pixels = torch.rand(16, 2, 12, 12)
    first = change(pixels, seeded(1))
    assert torch.equal(first, change(pixels, seeded(1)))
    assert not torch.equal(first, change(pixels, seeded(2)))
    assert first.min() >= 0
    assert first.max() <= 1 + 1e-6
    assert first.dtype == pixels.dtype


def test_crops_are_squares_of_the_image_at_every_place():
    pixels = torch.arange(48.0 * 48).reshape(1, 1, 48, 48).repeat(2000, 2, 1, 1)
    found = crops(pixels, size=32, generator=seeded())
    assert found.shape == (2000, 2, 32, 32)
    corners = found[:, 0, 0, 0].long()
    assert (found[:, 1, 31, 31].long() - corners == 31 * 48 + 31).all()
    assert set((corners // 48).tolist()) == set((corners % 48).tolist()) == set(range(17))
    assert torch.equal(centre_crop(pixels, size=32)[0], pixels[0, :, 8:40, 8:40])


@pytest.mark.parametrize("crop", [crops, centre_crop])
def test_a_crop_that_does_not_fit_is_refused(crop):
    with pytest.raises(ValueError, match="a crop of 9x9 does not fit into 8x12"):
        crop(torch.rand(1, 1, 8, 12), size=9)


def test_brightness_adds_and_contrast_stretches_about_the_mean():
    pixels = 0.5 + 0.1 * torch.rand(400, 1, 6, 6)
    brighter = brightness_and_contrast(pixels, brightness=0.1, contrast=(1.0, 1.0), generator=seeded())
    added = (brighter - pixels).flatten(1)
    assert torch.allclose(added, added[:, :1].expand_as(added), atol=1e-6)
    assert added.min() < -0.08
    assert added.max() > 0.08
    stretched = brightness_and_contrast(pixels, brightness=0.0, contrast=(0.5, 1.5), generator=seeded())
    assert torch.allclose(stretched.mean((1, 2, 3)), pixels.mean((1, 2, 3)), atol=1e-6)
    factors = stretched.flatten(1).std(1) / pixels.flatten(1).std(1)
    assert 0.5 <= factors.min() < 0.55
    assert 1.45 < factors.max() <= 1.5 + 1e-4


def still(**changes: object) -> dict[str, object]:
    return {"rotation": 0.0, "shear": 0.0, "scale": (1.0, 1.0), "translation": 0.0} | changes


def test_an_affine_map_without_ranges_is_the_identity():
    pixels = torch.rand(4, 2, 9, 13)
    assert torch.allclose(affine(pixels, **still()), pixels, atol=1e-5)


def blob(height: int, width: int, row: int, column: int) -> torch.Tensor:
    pixels = torch.zeros(300, 1, height, width)
    pixels[:, :, row - 1 : row + 2, column - 1 : column + 2] = 1
    return pixels


def centres(pixels: torch.Tensor) -> torch.Tensor:
    """Rows and columns of the middle of the ink, from the middle of the image."""
    height, width = pixels.shape[-2:]
    rows = torch.arange(height) - (height - 1) / 2
    columns = torch.arange(width) - (width - 1) / 2
    ink = pixels[:, 0] / pixels[:, 0].sum((1, 2), keepdim=True)
    return torch.stack([(ink.sum(2) * rows).sum(1), (ink.sum(1) * columns).sum(1)], dim=1)


@pytest.mark.parametrize(("row", "column", "angle"), [(20, 45, 0), (35, 30, 90)], ids=["right", "below"])
def test_rotation_keeps_distances_on_images_that_are_not_square(row, column, angle):
    found = centres(affine(blob(41, 61, row, column), **still(rotation=20.0), generator=seeded()))
    turned = torch.rad2deg(torch.atan2(found[:, 0], found[:, 1])) - angle
    assert torch.allclose(found.norm(dim=1), torch.tensor(15.0), atol=0.1)
    assert -20.5 < turned.min() < -18
    assert 18 < turned.max() < 20.5


def test_rotation_turns_the_whole_image_one_way():
    right, below = (
        centres(affine(blob(61, 61, row, column), **still(rotation=20.0), generator=seeded()))
        for row, column in ((30, 45), (45, 30))
    )
    assert torch.allclose((right * below).sum(dim=1), torch.tensor(0.0), atol=3), "still at a right angle"


def test_scale_moves_each_axis_by_itself():
    found = centres(affine(blob(61, 61, 40, 40), **still(scale=(0.8, 1.2)), generator=seeded())) / 10
    assert (found.min(dim=0).values > 0.78).all()
    assert (found.max(dim=0).values < 1.22).all()
    assert (found.max(dim=0).values - found.min(dim=0).values > 0.35).all()
    assert found.T.corrcoef()[0, 1].abs() < 0.2


def test_shear_moves_columns_by_the_row():
    found = centres(affine(blob(61, 61, 40, 30), **still(shear=0.2), generator=seeded()))
    assert torch.allclose(found[:, 0], torch.tensor(10.0), atol=0.1)
    assert 1.8 < found[:, 1].abs().max() < 2.1


def test_translation_is_in_pixels_on_both_axes():
    found = centres(affine(blob(31, 51, 15, 25), **still(translation=4.0), generator=seeded()))
    assert (found.abs().max(dim=0).values < 4.05).all()
    assert (found.max(dim=0).values > 3.7).all()
    assert (found.min(dim=0).values < -3.7).all()
