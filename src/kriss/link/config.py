"""How a linker is used; each field is also an option of the commands that link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from kriss.config import Setting, Settings
from kriss.errors import ConfigError
from kriss.rank.mode import Mode


@dataclass(frozen=True, slots=True)
class LinkConfig(Settings):
    """Settings of a query; the linker itself does not change."""

    weights: Annotated[
        Mapping[str, float],
        Setting(
            "Weight of a feature, instead of what the linker chose on its dev mentions: context=1. Repeatable.",
            "NAME=W",
            flag="--weight",
        ),
    ] = field(default_factory=dict)
    abbreviations: Annotated[bool, Setting("Read abbreviations as the document defines them.")] = True
    short_forms: Annotated[
        bool, Setting("Read abbreviations that the document does not define as the mined text explains them.")
    ] = True
    shared_names: Annotated[
        bool, Setting("Disambiguate shared names by hierarchy and context; if not, by reference and example (Eq. 4).")
    ] = True
    rerank: Annotated[bool, Setting("Let the linker's re-ranker read the first candidates with the mention.")] = False
    types: Annotated[
        tuple[str, ...],
        Setting(
            "Link to entities of this type alone: a name, code, tree prefix, subset. Repeatable.", "TYPE", flag="--type"
        ),
    ] = ()
    ids: Annotated[
        tuple[str, ...], Setting("Link to these entities alone: a file of ids, one a line.", "FILE", from_file=True)
    ] = ()
    threshold: Annotated[
        float, Setting("Link to nothing where the best candidate is less likely right than this.", "P", high=1)
    ] = 0.0
    mode: Annotated[
        Mode,
        Setting(
            "Prototypes: lazy for all, self-supervised for mined mentions and names, supervised for learned examples."
        ),
    ] = "lazy"

    def check(self) -> None:
        """Refuse weights of features that there are not."""
        if not self.weights:
            return
        from kriss.rank.features import FEATURES

        known = [feature.name for feature in FEATURES if feature.name != "bare"]
        if stranger := next((name for name in self.weights if name not in known), None):
            raise ConfigError(f"there is no feature '{stranger}' to weigh; there are {', '.join(known)}")
        if self.weights.get("context", 0.0) > 1:
            raise ConfigError(f"the weight of 'context' is from 0 to 1, not {self.weights['context']}")
