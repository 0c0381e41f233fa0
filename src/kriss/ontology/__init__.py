"""The first stage: from an ontology in any of the field's formats to one that every stage reads.

    sources ──► loader (umls, mesh, obo, tables) ──► staging ──► assemble ──► Ontology

`Ontology` reads an artifact, `build_ontology` writes one.
"""

from kriss.ontology.build import BuildReport, build_ontology
from kriss.ontology.config import FORMATS, OntologyConfig
from kriss.ontology.store import Match, Ontology

__all__ = ["FORMATS", "BuildReport", "Match", "Ontology", "OntologyConfig", "build_ontology"]
