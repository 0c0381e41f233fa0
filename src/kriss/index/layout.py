"""Where things are in the folder of a linker."""

from __future__ import annotations

PROTOTYPES, REFERENCES, VECTORS, NGRAMS = "prototypes.arrow", "references.npy", "vectors", "ngrams"
ONTOLOGY, ENCODER, NAMES = "ontology", "encoder", "names"
LEARNED = "learned"
"""Where a linker keeps what it is taught after it was built; not in the manifest, for it changes."""
