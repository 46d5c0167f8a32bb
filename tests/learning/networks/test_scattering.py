"""Scattering features: each image on its own, in the stated shape, blind to brightness, nearly blind to small shifts."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter

_SPEC = importlib.util.spec_from_file_location("scattering", Path(__file__).parents[3] / "examples" / "scattering.py")
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)
Scattering, grouped = _MODULE.Scattering, _MODULE.grouped

RNG = np.random.default_rng(1)
IMAGES = RNG.uniform(size=(70, 16, 16))
WAVES = Scattering((16, 16))


def test_shapes_and_numbers_of_channels():
    assert Scattering((28, 28)).channels == 81
    assert WAVES.features(IMAGES).shape == (70, 4, 4, 81)
    assert Scattering((16, 32), scales=3, angles=4).features(np.zeros((1, 16, 32))).shape == (1, 2, 4, 1 + 12 + 48)
    assert WAVES.features(IMAGES[:0]).shape == (0, 4, 4, 81)


def test_an_image_has_the_same_features_in_any_company():
    whole = WAVES.features(IMAGES)
    order = RNG.permutation(70)
    assert (WAVES.features(IMAGES[order]) == whole[order]).all()
    assert (WAVES.features(IMAGES[3:4])[0] == whole[3]).all()
    normal = grouped(whole, 27)
    assert (grouped(whole[order[:5]], 27) == normal[order[:5]]).all()


def test_a_constant_image_has_its_brightness_and_no_waves():
    found = WAVES.features(np.full((1, 16, 16), 3.0))[0]
    np.testing.assert_allclose(found[..., 0], 3, rtol=1e-3)
    assert np.abs(found[..., 1:]).max() < 1e-3


def test_an_oriented_wave_wakes_the_wavelets_of_its_angle():
    x = np.arange(32)
    wave = np.cos(0.75 * np.pi * x)[None, None, :] * np.ones((1, 32, 1))
    first = Scattering((32, 32)).features(wave)[0, 4, 4, 1:9]
    assert first.argmax() == 0  # angle 0: along x
    turned = Scattering((32, 32)).features(wave.transpose(0, 2, 1))[0, 4, 4, 1:9]
    assert turned.argmax() == 4  # a quarter turn


def test_a_shift_by_a_pixel_changes_features_less_than_pixels():
    image = np.zeros((1, 28, 28))
    image[0, 8:20, 12:16] = 1
    moved = np.roll(image, 1, axis=2)
    waves = Scattering((28, 28))
    a, b = waves.features(image), waves.features(moved)
    assert np.linalg.norm(a - b) / np.linalg.norm(a) < np.linalg.norm(image - moved) / np.linalg.norm(image)


def test_groups_have_mean_zero_and_deviation_one():
    parts = grouped(WAVES.features(IMAGES), 27).reshape(70, 16, 27, 3)
    np.testing.assert_allclose(parts.mean(axis=(1, 3)), 0, atol=1e-4)
    assert 0.5 < parts.std(axis=(1, 3)).mean() <= 1.001


@pytest.mark.parametrize("images", [np.zeros((2, 16)), np.zeros((2, 16, 15)), np.full((1, 16, 16), "x")])
def test_bad_images(images):
    with pytest.raises(InvalidData):
        WAVES.features(images)


@pytest.mark.parametrize("wrong", [{"shape": (15, 16)}, {"scales": 0}, {"angles": 0}, {"shape": (4, 4)}])
def test_bad_settings(wrong):
    with pytest.raises(InvalidParameter):
        Scattering(**{"shape": (16, 16)} | wrong)
    with pytest.raises(InvalidParameter):
        grouped(np.zeros((1, 2, 2, 81)), 4)
