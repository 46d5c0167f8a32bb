"""A channel as a linear map: what estimators need of p(y|x), without the matrix wherever it has a structure.

A model turns shares of inputs into shares of outputs (`forward`, q_y = Σ_x p_x·C_xy) and goes back by the transpose
(`backward`, s_x = Σ_y C_xy·r_y). The two are exact adjoints, <forward(p), r> = <p, backward(r)>, whether or not the
channel is symmetric. Vectors are flat and stand on the last axis, so a whole batch can be mapped at once.

>>> from discreet.local.estimation.linear_maps import KRRModel
>>> KRRModel(truth="3/4", other="1/4", size=2).forward([0.7, 0.3]).tolist()
[0.6, 0.4]
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidChannel, InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.fields import Converted, Integer, Rational
from discreet.mechanisms.channel import Channel

Floats = NDArray[np.float64]
Border = Literal["outside", "clamp", "remap"]

_TOLERANCE = 1e-9
_MOST_DENSE = 200_000_000
_ROUNDING = 2.0**-50


@runtime_checkable
class ChannelModel(Protocol):
    """p(y|x) of `size` inputs and `outputs` outputs as a linear map and its transpose."""

    @property
    def size(self) -> int:
        """The number of inputs x."""
        ...

    @property
    def outputs(self) -> int:
        """The number of outputs y."""
        ...

    @property
    def rounding(self) -> float:
        """The size of probabilities that `forward` cannot tell from zero: 0 where it only adds and multiplies."""
        ...

    def forward(self, p: ArrayLike) -> Floats:
        """q_y = Σ_x p_x·C_xy."""
        ...

    def backward(self, r: ArrayLike) -> Floats:
        """s_x = Σ_y C_xy·r_y."""
        ...


@dataclass(frozen=True, eq=False)
class DenseModel:
    """Any finite channel, as its matrix: O(inputs·outputs) a map.

    >>> DenseModel([[0.9, 0.1], [0.2, 0.8]]).backward([1, 0]).tolist()
    [0.9, 0.2]
    """

    matrix: Converted[Channel | ArrayLike, Floats] = Converted(lambda matrix, _: _read_matrix(matrix))

    @property
    def size(self) -> int:
        """The number of rows."""
        return int(self.matrix.shape[0])

    @property
    def outputs(self) -> int:
        """The number of columns."""
        return int(self.matrix.shape[1])

    @property
    def rounding(self) -> float:
        """0: sums of products of non-negative numbers are right relatively."""
        return 0.0

    def forward(self, p: ArrayLike) -> Floats:
        """q_y = Σ_x p_x·C_xy."""
        return np.asarray(_vectors(p, self.size, "p") @ self.matrix)

    def backward(self, r: ArrayLike) -> Floats:
        """s_x = Σ_y C_xy·r_y."""
        return np.asarray(_vectors(r, self.outputs, "r") @ self.matrix.T)


@dataclass(frozen=True, kw_only=True)
class KRRModel:
    """The channel of k-RR: the true value with probability `truth`, each other with `other`. O(k) a map.

    Σ_x p_x·C_xy = other·Σp + (truth − other)·p_y.

    >>> KRRModel(truth="1/2", other="1/4", size=3).forward([1, 0, 0]).tolist()
    [0.5, 0.25, 0.25]
    """

    truth: Rational = Rational(at_least=0, at_most=1)
    other: Rational = Rational(at_least=0, at_most=1)
    size: Integer = Integer(at_least=1)

    def __post_init__(self) -> None:
        total = self.truth + (self.size - 1) * self.other
        if abs(total - 1) > Fraction(1, 10**9):
            hint = f"truth + (size − 1)·other is {float(total):.12g}, not 1"
            raise InvalidParameter("other", float(self.other), "(1 − truth)/(size − 1)", hint)

    @property
    def outputs(self) -> int:
        """As many as inputs."""
        return self.size

    @property
    def rounding(self) -> float:
        """0, as for a dense model."""
        return 0.0

    def forward(self, p: ArrayLike) -> Floats:
        """q_y = other·Σp + (truth − other)·p_y."""
        shares = _vectors(p, self.size, "p")
        spread = shares.sum(axis=-1, keepdims=True) * float(self.other)
        return np.asarray(spread + shares * float(self.truth - self.other))

    def backward(self, r: ArrayLike) -> Floats:
        """The same map: a flat channel is symmetric."""
        return self.forward(_vectors(r, self.size, "r"))


@dataclass(frozen=True, slots=True, init=False, eq=False)
class ConvolutionModel:
    """Noise that is the same everywhere on a grid of one or two dimensions: y = x + d with probability kernel[d].

    O(k log k) a map, by FFT, and no matrix. The kernel has an odd number of cells on each axis; its middle is d = 0,
    and it need not be symmetric. What becomes of reports outside the area is a part of the channel, and exact:

    - "outside": they are kept. Outputs are the cells of the area with `margin` cells on each side (as many as the
      kernel reaches, if not given); where some reports can fall further, one last output stands for all of those;
    - "clamp": each coordinate is moved to the nearest one in the area. The kernel must sum to 1 (to 1e-9);
    - "remap": they are replaced by a uniformly drawn cell of the area.

    `size` and `outputs` count cells in row-major order; `shape` and `window` are the grids of inputs and of outputs.

    >>> walk = ConvolutionModel([0.25, 0.5, 0.25], shape=(3,), border="clamp")
    >>> walk.forward([1, 0, 0]).round(12).tolist()
    [0.75, 0.25, 0.0]
    >>> ConvolutionModel([0.25, 0.5, 0.25], shape=(3,), border="outside").window
    (5,)
    """

    kernel: Floats
    shape: tuple[int, ...]
    border: Border
    margin: tuple[int, ...]
    window: tuple[int, ...]
    outputs: int
    escape: Floats
    _inside: "Convolution"
    _edges: "Edges | None"

    def __init__(
        self,
        kernel: ArrayLike,
        *,
        shape: tuple[int, ...],
        border: Border,
        margin: int | tuple[int, ...] | None = None,
    ) -> None:
        grid, cells = _read_kernel(kernel), _read_shape(shape)
        if grid.ndim != len(cells):
            raise InvalidParameter("kernel", f"{grid.ndim} axes", f"{len(cells)}, as the shape has")
        if border not in ("outside", "clamp", "remap"):
            raise InvalidParameter("border", border, "'outside', 'clamp' or 'remap'")
        if border == "clamp":
            grid = _complete(grid)
        sides = _read_margin(margin, grid, border)
        flat, plane, around = as_plane(grid.shape), as_plane(cells), as_plane(sides, 0)
        inside = Convolution(grid.reshape(flat), (plane[0], plane[1]), (around[0], around[1]))
        escape = np.clip(1 - inside.backward(np.ones((1, *inside.window))).ravel(), 0, 1)
        escape[escape < _ROUNDING * 64] = 0
        window = tuple(n + 2 * m for n, m in zip(cells, sides, strict=True))
        beyond = border == "outside" and bool(escape.any())
        fields: dict[str, Any] = {
            "kernel": grid,
            "shape": cells,
            "border": border,
            "margin": sides,
            "window": window,
            "outputs": int(np.prod(window)) + beyond,
            "escape": escape,
            "_inside": inside,
            "_edges": Edges(grid.reshape(flat), (plane[0], plane[1])) if border == "clamp" else None,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """The number of cells of the area."""
        return int(np.prod(self.shape))

    @property
    def rounding(self) -> float:
        """What a Fourier transform of probabilities loses, absolutely."""
        return _ROUNDING

    @property
    def beyond(self) -> bool:
        """Whether a last output stands for the reports outside the window."""
        return self.outputs > int(np.prod(self.window))

    def forward(self, p: ArrayLike) -> Floats:
        """q_y = Σ_x p_x·C_xy, to about 1e-16 absolutely."""
        shares = _vectors(p, self.size, "p")
        batch = shares.reshape(-1, *as_plane(self.shape))
        inner = self._inside.forward(batch)
        if self._edges is not None:
            self._edges.add_forward(batch, inner)
        out = inner.reshape(*shares.shape[:-1], -1)
        if self.border == "clamp":
            return out
        lost = (shares @ self.escape)[..., None]
        if self.border == "remap":
            return np.asarray(out + lost / self.size)
        return np.concatenate([out, lost], axis=-1) if self.beyond else out

    def backward(self, r: ArrayLike) -> Floats:
        """s_x = Σ_y C_xy·r_y: the correlation, not the convolution, so asymmetric noise goes back the right way."""
        ratios = _vectors(r, self.outputs, "r")
        inner = ratios[..., :-1] if self.beyond else ratios
        batch = inner.reshape(-1, *as_plane(self.window))
        back = self._inside.backward(batch)
        if self._edges is not None:
            self._edges.add_backward(batch, back)
        out = back.reshape(*ratios.shape[:-1], -1)
        if self.border == "remap":
            return np.asarray(out + self.escape * ratios.mean(axis=-1, keepdims=True))
        return np.asarray(out + self.escape * ratios[..., -1:]) if self.beyond else out


def dense(model: ChannelModel) -> Floats:
    """The matrix of any model, row by row: for small models and for tests.

    >>> dense(KRRModel(truth="1/2", other="1/4", size=3))[0].tolist()
    [0.5, 0.25, 0.25]
    """
    if isinstance(model, DenseModel):
        return model.matrix
    if model.size * model.outputs > _MOST_DENSE:
        raise InvalidChannel(
            f"the matrix would have {model.size} × {model.outputs} entries; use `ibu`, which does not need it"
        )
    return np.maximum(model.forward(np.eye(model.size)), 0)  # an FFT leaves −1e-17 where there is 0


# Reading what callers give


def _read_matrix(channel: Channel | ArrayLike) -> Floats:
    """The matrix of a channel: probabilities, and rows that sum to one."""
    try:
        matrix = np.array(channel.as_float().matrix if isinstance(channel, Channel) else channel, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidChannel("matrix: expected numbers in equally long rows, one row for each input") from None
    if matrix.ndim != 2 or not matrix.size:
        raise InvalidChannel(f"matrix: got shape {matrix.shape}, expected rows (inputs) and columns (outputs)")
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise InvalidChannel("matrix: expected probabilities; an entry is negative, NaN or infinite")
    sums = matrix.sum(axis=1)
    wrong = np.flatnonzero(np.abs(sums - 1) > _TOLERANCE)
    if wrong.size:
        raise InvalidChannel(f"row {wrong[0]} sums to {sums[wrong[0]]:.12g}, expected 1 (to 1e-9); normalize it first")
    matrix.setflags(write=False)
    return matrix


def _vectors(values: ArrayLike, length: int, name: str) -> Floats:
    array = np.asarray(values, np.float64)
    if array.ndim == 0 or array.shape[-1] != length:
        raise InvalidData(f"{name}: got shape {array.shape}, expected {length} numbers on the last axis")
    return array


def _read_kernel(kernel: ArrayLike) -> Floats:
    try:
        grid = np.array(kernel, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidChannel("kernel: expected probabilities of displacements in a regular array") from None
    if grid.ndim not in (1, 2) or any(n % 2 == 0 for n in grid.shape):
        raise InvalidChannel(
            f"kernel: got shape {grid.shape}, expected 1 or 2 axes of odd length with no displacement in the middle; "
            "pad it with zeros"
        )
    if not np.isfinite(grid).all() or (grid < 0).any():
        raise InvalidChannel("kernel: expected probabilities; an entry is negative, NaN or infinite")
    if not 0 < grid.sum() <= 1 + _TOLERANCE:
        raise InvalidChannel(f"kernel: it sums to {grid.sum():.12g}, expected at most 1 and more than 0")
    grid.setflags(write=False)
    return grid


def _complete(kernel: Floats) -> Floats:
    total = kernel.sum()
    if abs(total - 1) > _TOLERANCE:
        raise InvalidChannel(
            f"kernel: it sums to {total:.12g}, so where {1 - total:.3g} of the reports go is unknown, and they cannot "
            "be clamped; give a larger kernel, or border='outside'"
        )
    return np.asarray(kernel / total)


def _read_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    if not isinstance(shape, tuple | list) or len(shape) not in (1, 2):
        raise InvalidParameter("shape", shape, "one or two numbers of cells, such as (30, 30)")
    return tuple(integer(n, "shape", at_least=1) for n in shape)


def _read_margin(margin: int | tuple[int, ...] | None, kernel: Floats, border: Border) -> tuple[int, ...]:
    reach = tuple(n // 2 for n in kernel.shape)
    if border != "outside":
        if margin is not None:
            raise InvalidParameter("margin", margin, "nothing", f"border={border!r} keeps no cells outside the area")
        return (0,) * kernel.ndim
    if margin is None:
        return reach
    given = margin if isinstance(margin, tuple | list) else (margin,) * kernel.ndim
    if len(given) != kernel.ndim:
        raise InvalidParameter("margin", margin, f"one number, or {kernel.ndim}")
    return tuple(min(integer(m, "margin", at_least=0), r) for m, r in zip(given, reach, strict=True))


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
