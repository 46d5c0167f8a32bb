"""Convolution in the plane by FFT, and what clamping adds at the border. Every array has a leading batch axis."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Convolution:
    """From the cells of an area to those of the area with a margin, by real FFTs of the least length.

    Displacement d stands at index d + margin (mod N), so cell y of the window comes out at y + margin. With reach R
    (the kernel's, at most n − 1 + margin) sums lie in margin − R … n − 1 + margin + R; for N ≥ n + margin + R what
    wraps around lands outside the window. Rows known to be zero are not transformed, rows not wanted not inverted.
    """

    def __init__(self, kernel: Floats, shape: tuple[int, int], margin: tuple[int, int]) -> None:
        from scipy.fft import next_fast_len

        self.shape = shape
        self.window = shape[0] + 2 * margin[0], shape[1] + 2 * margin[1]
        most = [n - 1 + m for n, m in zip(shape, margin, strict=True)]
        reach = [min(k // 2, r) for k, r in zip(kernel.shape, most, strict=True)]
        self.lengths = [next_fast_len(n + m + r, real=True) for n, m, r in zip(shape, margin, reach, strict=True)]
        near = centered(kernel, reach[0], reach[1])
        rows, columns = ((np.arange(-r, r + 1) + m) % n for r, m, n in zip(reach, margin, self.lengths, strict=True))
        placed = np.zeros(self.lengths)
        placed[np.ix_(rows, columns)] = near
        self._spectrum = transform(placed, self.lengths)

    def forward(self, p: Floats) -> Floats:
        """From cells of the area to cells of the window."""
        return self._apply(p, self._spectrum, self.window)

    def backward(self, r: Floats) -> Floats:
        """The transpose."""
        return self._apply(r, self._spectrum.conj(), self.shape)

    def _apply(self, values: Floats, spectrum: NDArray[np.complex128], crop: tuple[int, int]) -> Floats:
        from scipy.fft import ifft, irfft

        waves = transform(values, self.lengths)
        waves *= spectrum
        rows = ifft(waves, axis=-2, overwrite_x=True)[..., : crop[0], :]
        return np.ascontiguousarray(irfft(rows, n=self.lengths[1], axis=-1)[..., : crop[1]])


def transform(values: Floats, lengths: list[int]) -> NDArray[np.complex128]:
    """The real FFT over the last two axes, padded to these lengths."""
    from scipy.fft import fft, rfft

    return np.asarray(fft(rfft(values, n=lengths[1], axis=-1), n=lengths[0], axis=-2, overwrite_x=True))


class Edges:
    """What clamping adds to the border: reports beyond one side (a 1-D convolution for each row), beyond two (corners).

    From row x1, a report beyond the first row and in column x2 + d2 has probability T[x1, d2] = Σ_{d1 < −x1} K[d1, d2];
    it lands on (0, x2 + d2). Likewise for the other three sides, seen through flips and a transposition. A report
    beyond two sides lands on a corner, with a probability that is a double sum of the kernel.
    """

    def __init__(self, kernel: Floats, shape: tuple[int, int]) -> None:
        turned = kernel.T
        self._top, self._bottom = Side(kernel, shape), Side(kernel[::-1], shape)
        self._left, self._right = Side(turned, shape[::-1]), Side(turned[::-1], shape[::-1])
        self._corners = [
            (row, column, corner(kernel[::down, ::across], shape)[::down, ::across])
            for row, down in ((0, 1), (-1, -1))
            for column, across in ((0, 1), (-1, -1))
        ]

    def add_forward(self, p: Floats, q: Floats) -> None:
        """Add to q what p sends beyond the border."""
        turned = p.transpose(0, 2, 1)
        q[:, 0, :] += self._top.forward(p)
        q[:, -1, :] += self._bottom.forward(p[:, ::-1])
        q[:, :, 0] += self._left.forward(turned)
        q[:, :, -1] += self._right.forward(turned[:, ::-1])
        for row, column, chance in self._corners:
            q[:, row, column] += np.tensordot(p, chance, axes=2)

    def add_backward(self, r: Floats, s: Floats) -> None:
        """The transpose, added to s."""
        s += self._top.backward(r[:, 0, :])
        s += self._bottom.backward(r[:, -1, :])[:, ::-1]
        s += self._left.backward(r[:, :, 0]).transpose(0, 2, 1)
        s += self._right.backward(r[:, :, -1])[:, ::-1].transpose(0, 2, 1)
        for row, column, chance in self._corners:
            s += r[:, row, column, None, None] * chance


class Side:
    """Reports beyond the first row, as 1-D convolutions along it, one for each row they come from."""

    def __init__(self, kernel: Floats, shape: tuple[int, int]) -> None:
        from scipy.fft import next_fast_len, rfft

        rows, self._cells = shape
        reach = min(kernel.shape[1] // 2, self._cells - 1)
        self._length = next_fast_len(self._cells + reach, real=True)
        tails = np.zeros((rows, self._length))
        middle = kernel.shape[1] // 2
        near = kernel[:, middle - reach : middle + reach + 1]
        tails[:, np.arange(-reach, reach + 1) % self._length] = before(near, rows)
        self._spectrum = rfft(tails, axis=-1)

    def forward(self, p: Floats) -> Floats:
        """What lands on the first row."""
        from scipy.fft import irfft, rfft

        waves = np.einsum("bxf,xf->bf", rfft(p, n=self._length, axis=-1), self._spectrum)
        return np.asarray(irfft(waves, n=self._length, axis=-1)[:, : self._cells])

    def backward(self, r: Floats) -> Floats:
        """The transpose."""
        from scipy.fft import irfft, rfft

        waves = rfft(r, n=self._length, axis=-1)[:, None, :] * self._spectrum.conj()
        return np.asarray(irfft(waves, n=self._length, axis=-1)[:, :, : self._cells])


def before(kernel: Floats, rows: int) -> Floats:
    """Row x holds Σ_{d < −x} kernel[d] over the first axis, for x = 0 … rows − 1."""
    reach = kernel.shape[0] // 2
    sums = np.zeros((rows, kernel.shape[1]))
    upto = np.cumsum(kernel[:reach], axis=0)[::-1]  # d ≤ −1, d ≤ −2, …
    sums[: min(rows, reach)] = upto[:rows]
    return sums


def corner(kernel: Floats, shape: tuple[int, int]) -> Floats:
    """Σ of kernel[d1, d2] over d1 < −x1 and d2 < −x2, for every cell x."""
    return before(before(kernel, shape[0]).T, shape[1]).T


def centered(kernel: Floats, down: int, across: int) -> Floats:
    """The middle of a kernel, so many rows and columns to each side."""
    i, j = kernel.shape[0] // 2, kernel.shape[1] // 2
    return kernel[i - down : i + down + 1, j - across : j + across + 1]


def as_plane(values: tuple[int, ...], first: int = 1) -> tuple[int, ...]:
    """A line is a plane of one row: kernel (1, w), shape (1, n), margin (0, m)."""
    return values if len(values) == 2 else (first, *values)
