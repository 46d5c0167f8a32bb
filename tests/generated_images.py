"""Images of ten made-up signs: stand-ins for handwritten digits and photographs where those are absent."""

import numpy as np
from numpy.typing import NDArray


def signs(rows: int, *, seed: int, size: int = 28, channels: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Signs of three strokes each, drawn with shaky ends and on a noisy ground, and which of the ten each is.

    The ten signs are the same for every seed; the seed decides who draws them.
    """
    fixed = np.random.default_rng(20261118)
    ends = fixed.uniform(0.15, 0.85, (10, 3, 2, 2))
    colors = fixed.uniform(0.3, 1, (10, 3, channels))
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 10, rows)
    shaky = ends[which] + rng.normal(0, 0.05, (rows, 3, 2, 2)) + rng.normal(0, 0.04, (rows, 1, 1, 2))
    axis = (np.arange(size) + 0.5) / size
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)  # size × size × 2
    images = np.zeros((rows, size, size, channels), np.float32)
    for stroke in range(3):
        start, along = shaky[:, stroke, 0], shaky[:, stroke, 1] - shaky[:, stroke, 0]
        away = grid[None] - start[:, None, None]  # rows × size × size × 2
        share = np.clip((away * along[:, None, None]).sum(-1) / (along**2).sum(-1)[:, None, None], 0, 1)
        distance = np.linalg.norm(away - share[..., None] * along[:, None, None], axis=-1)
        ink = np.exp(-((distance / 0.06) ** 2))[..., None] * colors[which, stroke][:, None, None]
        images = np.maximum(images, ink.astype(np.float32))
    noisy = 255 * np.clip(images + rng.normal(0, 0.08, images.shape), 0, 1)
    return np.squeeze(noisy.astype(np.uint8)) if channels == 1 else noisy.astype(np.uint8), which
