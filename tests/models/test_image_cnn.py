"""The CNNs beside the capsules: the papers' sizes, and one as large as the light capsule network."""

from image_networks import MNIST, NORB, OVERLAP, image_network, parameters


def test_the_cnn_of_sabour_has_35_4_million_parameters() -> None:
    """Sabour et al. 2017, section 5."""
    convolutions = (25 * 256 + 256) + (25 * 256 * 256 + 256) + (25 * 256 * 128 + 128)
    dense = (28 * 28 * 128 * 328 + 328) + (328 * 192 + 192) + (192 * 10 + 10)
    assert parameters(image_network("cnn-sabour", MNIST)) == convolutions + dense == 35_445_522


def test_the_cnn_for_overlapping_digits_has_24_56_million_parameters() -> None:
    """Sabour et al. 2017, section 6."""
    convolutions = (81 * 512 + 512) + (25 * 512 * 256 + 256)
    dense = (9 * 9 * 256 * 1024 + 1024) + (1024 * 10 + 10)
    assert parameters(image_network("cnn-multimnist", OVERLAP)) == convolutions + dense == 24_563_978


def test_the_cnn_of_hinton_has_4_2_million_parameters() -> None:
    """Hinton et al. 2018, section 6."""
    convolutions = (25 * 2 * 32 + 32) + (25 * 32 * 64 + 64)
    dense = (8 * 8 * 64 * 1024 + 1024) + (1024 * 5 + 5)
    assert parameters(image_network("cnn-hinton", NORB, classes=5)) == convolutions + dense == 4_253_349


def test_the_light_cnn_is_as_large_as_the_light_capsule_network() -> None:
    capsules, units = (parameters(image_network(name, MNIST)) for name in ("capsnet-light", "cnn-light"))
    assert abs(units / capsules - 1) < 0.02
