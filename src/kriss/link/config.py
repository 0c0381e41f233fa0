"""How a linker is used; each field is also an option of the commands that link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kriss.errors import ConfigError
from kriss.rank.parts import Mode


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """Settings of a query; the linker itself does not change."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Weights of features instead of those that the linker chose on its dev mentions: `context=1`, `spelling=0`."""
    abbreviations: bool = True
    """Read abbreviations as the document defines them."""
    short_forms: bool = True
    """Read abbreviations that the document does not define as the mined text explains them."""
    shared_names: bool = True
    """Disambiguate shared names by hierarchy and context; if not, references and the nearest example decide (Eq. 4)."""
    rerank: bool = False
    """Let the linker's re-ranker read the first candidates with the mention."""
    types: tuple[str, ...] = ()
    """Link to entities of these types alone: names, codes, tree prefixes, named subsets."""
    ids: tuple[str, ...] = ()
    """Link to these entities alone."""
    threshold: float = 0.0
    """Link to nothing where the best candidate is less likely right than this."""
    mode: Mode = "lazy"
    """Prototypes: `lazy` all, `self-supervised` mined mentions and names, `supervised` learned examples alone."""


def check(config: LinkConfig) -> None:
    """Refuse settings that make no sense."""
    from kriss.rank.features import FEATURES

    known = [feature.name for feature in FEATURES if feature.name != "bare"]
    for name, weight in config.weights.items():
        if name not in known:
            raise ConfigError(f"there is no feature '{name}' to weigh; there are {', '.join(known)}")
        if not 0 <= weight < float("inf"):
            raise ConfigError(f"the weight of '{name}' is a number that is not negative, not {weight}")
    if config.weights.get("context", 0.0) > 1:
        raise ConfigError(f"the weight of 'context' is from 0 to 1, not {config.weights['context']}")
    if not 0 <= config.threshold <= 1:
        raise ConfigError(f"'threshold' is a probability from 0 to 1, not {config.threshold}")
