"""What any training run can be asked, and which answers make no sense."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from kriss.encoder.base import MINILM
from kriss.errors import ConfigError


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of the loop; what is trained adds its own, and may have other defaults."""

    model: str = MINILM
    """`minilm`, a folder or a name on the hub."""
    mentions_per_entity: int = 3
    epochs: float = 1.0
    """How often each training mention is seen, on average; the paper does not say."""
    steps: int = 0
    """If not 0, so many steps instead of `epochs`."""
    learning_rate: float = 1e-5
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises; then it falls to 0 in a straight line."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Gradients longer than this are shortened to it."""
    dropout: float = 0.1
    p_mask: float = 0.2
    p_replace: float = 0.2
    dev_queries: int = 1000
    dev_every: int = 500
    save_every: int = 250
    seed: int = 0


_POSITIVE = ("mentions_per_entity", "clip", "dev_queries", "dev_every", "save_every", "learning_rate")
_SHARES = ("p_mask", "p_replace", "warmup", "dropout")


def check_settings(settings: LoopSettings, positive: Sequence[str], shares: Sequence[str]) -> None:
    """Refuse settings that make no sense, in one sentence; those named are positive, or shares, as well."""
    values: dict[str, Any] = {one.name: getattr(settings, one.name) for one in fields(settings)}
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value) and name != "clip":
            raise ConfigError(f"'{name}' must be a number, not {value}")
    for name in (*_POSITIVE, *positive):
        if not values[name] > 0:
            raise ConfigError(f"'{name}' must be more than 0, not {values[name]}")
    for name in (*_SHARES, *shares):
        if not 0 <= values[name] <= 1:
            raise ConfigError(f"'{name}' is a share, from 0 to 1, not {values[name]}")
    if settings.p_mask + settings.p_replace > 1:
        raise ConfigError("'p_mask' and 'p_replace' are at most 1 together")
    if settings.steps < 0 or (settings.steps == 0 and not settings.epochs > 0):
        raise ConfigError("'steps' or 'epochs' must be more than 0")
    if settings.weight_decay < 0:
        raise ConfigError(f"'weight_decay' must be 0 or more, not {settings.weight_decay}")
    if not 0 <= settings.seed < 2**32:
        raise ConfigError(f"'seed' is a whole number from 0 to {2**32 - 1}, not {settings.seed}")
