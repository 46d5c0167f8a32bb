"""Scattering: fixed wavelet features of images, the same for all data, so they cost nothing.

Bruna, Mallat 2013 ("Invariant scattering convolution networks"): images are filtered by oriented wavelets, moduli are
taken, filtered again, and averaged over windows. Linear models on such features do better under privacy than networks
that learn theirs (Tramèr, Boneh 2021, "Differentially private learning needs better features").

>>> import numpy as np
>>> from scattering import Scattering, grouped
>>> features = Scattering((28, 28)).features(np.zeros((2, 28, 28)))
>>> features.shape, grouped(features, 27).shape
((2, 7, 7, 81), (2, 7, 7, 81))
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.learning.sgd.gradients import Array

Floats = NDArray[np.float64]

_SPREAD, _FREQUENCY = 0.8, 0.75 * math.pi  # of the finest wavelet: deviation in pixels, radians a pixel
_AT_ONCE = 64
_WRAPS = range(-2, 3)  # copies of a filter that reach into the image from beyond its edges


@dataclass(frozen=True, slots=True)
class Scattering:
    """Two layers of Morlet wavelets at `scales` octaves and `angles` orientations, averaged over windows of 2^scales.

    Of an image of h × w come (h/2^scales) × (w/2^scales) places with 1 + JL + J(J − 1)/2·L² channels. Images are
    mirrored beyond their edges.
    """

    shape: tuple[int, int]
    scales: int = 2
    angles: int = 8

    def __post_init__(self) -> None:
        integer(self.scales, "scales", at_least=1, at_most=5)
        integer(self.angles, "angles", at_least=1, at_most=32)
        if len(self.shape) != 2 or any(side % self.window or side <= self.window for side in self.shape):
            raise InvalidParameter("shape", self.shape, f"height and width, multiples of {self.window} and larger")

    @property
    def window(self) -> int:
        """The side of the windows over which is averaged."""
        return 1 << self.scales

    @property
    def channels(self) -> int:
        """Numbers for each place."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.scales * self.angles + pairs * self.angles**2

    def features(self, images: Any) -> Array:
        """The features of each image (n, h, w) on its own, as (n, places, places, channels)."""
        given = np.asarray(images)
        if given.ndim != 3 or given.shape[1:] != self.shape or given.dtype.kind not in "fiu":
            raise InvalidData(f"images of shape {given.shape} and type {given.dtype}, expected (n, height, width)")
        height, width = (side // self.window for side in self.shape)
        return _by_blocks(self._block, given, (height, width, self.channels))

    def _block(self, images: NDArray[Any]) -> Array:
        return np.moveaxis(np.concatenate(list(self._channels(images.astype(np.float32))), axis=1), 1, -1)

    def _channels(self, images: Array) -> Iterator[Array]:
        """Averages of the image, of its moduli, and of the moduli of those: (n, channels, places, places) each."""
        from scipy.fft import fft2

        margin = self.window
        padded: Array = np.pad(images, ((0, 0), (margin, margin), (margin, margin)), mode="reflect")
        size = padded.shape[1:]
        yield self._averaged(padded[:, None], 0)
        spectrum = fft2(padded)
        for first in range(self.scales):
            moduli = _moduli(spectrum[:, None], _bank(size, first, 0, self.angles), first)
            yield self._averaged(moduli, first)
            if first + 1 < self.scales:
                spectra = fft2(moduli)
            for second in range(first + 1, self.scales):
                bank = _bank(size, second, first, self.angles)
                for one in range(self.angles):
                    yield self._averaged(_moduli(spectra[:, one, None], bank, second - first), second)

    def _averaged(self, x: Array, octave: int) -> Array:
        """Gaussian averages at the places of the original image."""
        rows, columns = (_averages(side + 2 * self.window, octave, self.scales) for side in self.shape)
        return np.asarray(rows @ x @ columns.T, np.float32)


def grouped(features: Array, groups: int) -> Array:
    """Each example's channels in groups, each group of mean 0 and deviation 1 over its places and channels.

    Group normalization (Wu, He 2018) without parameters: an example on its own, so it costs nothing.

    >>> grouped(np.array([[[[1.0, 3.0]]]]), 1).ravel().round(2).tolist()
    [-1.0, 1.0]
    """
    _, height, width, channels = features.shape
    if channels % integer(groups, "groups", at_least=1):
        raise InvalidParameter("groups", groups, f"a divisor of the {channels} channels")

    def normalized(part: NDArray[Any]) -> Array:
        split = part.reshape(len(part), height * width, groups, channels // groups)
        middle, spread = split.mean(axis=(1, 3), keepdims=True), split.std(axis=(1, 3), keepdims=True)
        normal = (split - middle) / np.sqrt(spread * spread + np.float32(1e-5))
        return np.asarray(normal.reshape(part.shape), np.float32)

    return _by_blocks(normalized, features, (height, width, channels))


def _by_blocks(function: Callable[[NDArray[Any]], Array], rows: NDArray[Any], shape: tuple[int, ...]) -> Array:
    """A function of examples, on blocks of one size: rounding does not depend on other examples."""
    found = np.empty((len(rows), *shape), np.float32)
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        full = np.zeros((_AT_ONCE, *part.shape[1:]), part.dtype)
        full[: len(part)] = part
        found[start : start + len(part)] = function(full)[: len(part)]
    return found


def _moduli(spectra: NDArray[np.complex64], bank: Array, octaves: int) -> Array:
    """|x ⋆ ψ| for each filter of the bank, at a resolution that is lower by so many octaves: spectra are folded."""
    from scipy.fft import ifft2

    product = spectra * bank
    if octaves:
        fold = 1 << octaves
        *lead, height, width = product.shape
        product = product.reshape(*lead, fold, height // fold, fold, width // fold).mean(axis=(-4, -2))
    modulus: Array = np.abs(ifft2(product))
    return modulus


@lru_cache(maxsize=64)
def _bank(size: tuple[int, int], octave: int, below: int, angles: int) -> Array:
    """The Morlet wavelets of an octave, one for each angle, in frequencies; for images at resolution 2^−below."""
    filters = [_morlet(size, octave, math.pi * angle / angles, 4 / angles) for angle in range(angles)]
    bank = np.stack([np.fft.fft2(one).real for one in filters])  # symmetric about 0, so real in frequencies
    rows, columns = (_kept(side, below) for side in size)
    return bank[:, rows][:, :, columns].astype(np.float32)


def _kept(side: int, below: int) -> NDArray[np.int64]:
    """The frequencies that are left at a lower resolution."""
    left = side >> below
    return np.concatenate([np.arange(left // 2), np.arange(side - (left - left // 2), side)])


def _morlet(size: tuple[int, int], octave: int, angle: float, slant: float) -> NDArray[np.complex128]:
    """A wave under a Gaussian, less so much of the Gaussian that it has mean 0."""
    spread, frequency = _SPREAD * 2**octave, _FREQUENCY / 2**octave
    wave, bell = (_gabor(size, spread, angle, f, slant) for f in (frequency, 0.0))
    morlet: NDArray[np.complex128] = wave - bell * (wave.sum() / bell.sum())
    return morlet


def _gabor(
    size: tuple[int, int], spread: float, angle: float, frequency: float, slant: float
) -> NDArray[np.complex128]:
    """exp(−(u² + slant²·v²)/2·spread² + i·frequency·u), u along the angle; wrapped around, with integral 1 at 0."""
    total = np.zeros(size, np.complex128)
    for down in _WRAPS:
        for right in _WRAPS:
            y, x = np.meshgrid(np.arange(size[0]) + down * size[0], np.arange(size[1]) + right * size[1], indexing="ij")
            u, v = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
            total += np.exp(-(u * u + slant**2 * v * v) / (2 * spread**2) + 1j * frequency * u)
    return total * (slant / (2 * math.pi * spread**2))


@lru_cache(maxsize=64)
def _averages(side: int, octave: int, scales: int) -> Array:
    """The matrix of Gaussian averages along one axis, at the places inside the margin, one a window."""
    spread, step = _SPREAD * 2 ** (scales - 1), 1 << octave
    window = 1 << scales
    places = np.arange(window, side - window, window)[:, None]
    points = np.arange(0, side, step)[None, :]
    total = sum((np.exp(-((places - points + wrap * side) ** 2) / (2 * spread**2)) for wrap in _WRAPS), np.zeros(1))
    matrix: Array = (total * (step / (spread * math.sqrt(2 * math.pi)))).astype(np.float32)
    return matrix
