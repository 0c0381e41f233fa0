"""The mining stage: find an ontology's names in any amount of text and keep each hit in its context."""
