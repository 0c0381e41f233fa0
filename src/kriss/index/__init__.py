"""Index: what an ontology, its mentions and an encoder give the linker to search in."""
