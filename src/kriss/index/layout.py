"""Where things are in the folder of a linker."""

from __future__ import annotations

from kriss.mine.config import MineConfig

PROTOTYPES, REFERENCES, VECTORS, NGRAMS = "prototypes.arrow", "references.npy", "vectors", "ngrams"
ONTOLOGY, ENCODER, NAMES = "ontology", "encoder", "names"
LEARNED = "learned"
"""Where a linker keeps what it is taught after it was built; not in the manifest, for it changes."""
RERANKER = "reranker"
"""Where a linker keeps a re-ranker: an artifact of its own, put in after it was built."""
LOOKED_FOR = MineConfig(min_length=2)
"""How names are found in text that is annotated: `MS` too, which mining passes over as too short."""
