"""Where real data are for the tests that show a published figure; each has a generated stand-in beside it."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skip a test, with the reason, where these files are absent."""
    missing = [name for name in names if not (FOLDER / name).exists()]
    reason = f"{', '.join(missing)}: not in {FOLDER}; set DISCREET_DATA"
    return pytest.mark.skipif(bool(missing), reason=reason)
