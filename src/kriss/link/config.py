"""How a linker is asked; each field is also an option of the commands that link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kriss.errors import ConfigError

Mode = Literal["lazy", "self-supervised", "supervised"]


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """Settings of a query; the linker itself does not change."""

    context: float | None = None
    """Weight of the mention's view in context beside its view as a bare name: 1 is the paper's query,
    None what the linker found best on its own dev mentions."""
    abbreviations: bool = True
    """Read an abbreviation as the long form that the document gives for it."""
    short_forms: bool = True
    """Read one that its document does not explain as what the mined text says it stands for."""
    ngrams: float | None = None
    """Weight of the likeness in spelling that is added to a score; above 0, entities that are spelled
    like the mention join the candidates. None is what the linker found best on its own dev mentions."""
    broader: float | None = None
    """Weight of what narrower candidates say for those above them in the hierarchy, where the first candidate has
    no name spelled as the mention. None is what the linker found best on its own dev mentions."""
    ties: bool = True
    """Where several entities have the very name that was found, take the broadest of them, or else the one with
    the mined mention most like this one in its context; where people called several so, the one that most of them
    meant. If not, references and the nearest example decide, as in Eq. 4."""
    rerank: bool = False
    """Let the re-ranker that stands in the linker read the first candidates together with the mention."""
    rerank_top: int | None = None
    """If it is asked, how many it reads; None is what did best on dev mentions."""
    rerank_sure: float | None = None
    """It is not asked where the linker's own answer is at least so likely: 2 for always, None for what dev mentions
    allow."""
    types: tuple[str, ...] = ()
    """Link to entities of these types alone: names, codes, tree prefixes, named subsets."""
    ids: tuple[str, ...] = ()
    """Link to these entities alone."""
    threshold: float = 0.0
    """A mention whose best candidate is less likely than this is linked to nothing."""
    gold: float = 0.05
    """How much more the score of a learned example counts: what a person said, before what was mined or is only
    a name; four times that if it is spelled as the mention. 0 is the paper's."""
    mode: Mode = "lazy"
    """`self-supervised`: prototypes that were mined, and names; `supervised`: learned examples alone;
    `lazy`: both."""


def check(config: LinkConfig) -> None:
    """Refuse settings that make no sense."""
    if config.context is not None and not 0 <= config.context <= 1:
        raise ConfigError(f"'context' is a weight from 0 to 1, not {config.context}")
    if not 0 <= config.threshold <= 1:
        raise ConfigError(f"'threshold' is a probability from 0 to 1, not {config.threshold}")
    if config.rerank_top is not None and config.rerank_top < 2:
        raise ConfigError(f"'rerank_top' is at least 2, not {config.rerank_top}: among fewer there is no choice")
    if config.rerank_sure is not None and not config.rerank_sure >= 0:
        raise ConfigError(f"'rerank_sure' is a probability, or 2 to ask always, not {config.rerank_sure}")
    for name in ("ngrams", "broader", "gold"):
        value = getattr(config, name)
        if value is not None and not 0 <= value < float("inf"):
            raise ConfigError(f"'{name}' is a weight that is not negative, not {value}")
