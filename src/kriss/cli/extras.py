"""What a command needs beyond the base install."""

from __future__ import annotations

import importlib.util

from kriss.errors import MissingExtraError


def need_training(purpose: str, *packages: str) -> None:
    """Say which package of the extra `train` is missing, before anything is read."""
    for package in ("torch", "transformers", *packages):
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, "train", purpose)
