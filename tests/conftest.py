"""What all tests share: one torch thread, Hypothesis profiles, and the handed cases beside the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

REPO_ROOT = Path(__file__).resolve().parents[1]

# The models of the tests are too small to share out, and several threads on two cores wait for each other.
torch.set_num_threads(1)

# A first forward can take a second: no deadline. CI draws the same examples every time.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Give the root of the checkout."""
    return REPO_ROOT


@pytest.fixture(scope="session")
def cases_dir() -> Path:
    """Give the folder of handed pages and crops with ground truth; skip where a checkout came without it."""
    folder = REPO_ROOT.parent / "shared" / "cases"
    if not (folder / "manifest.json").is_file():
        pytest.skip(f"no handed cases: {folder} has no manifest.json")
    return folder
