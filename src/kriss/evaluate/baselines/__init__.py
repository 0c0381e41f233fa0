"""The systems that the paper compares with, rebuilt so that they see the same ontology and the same scorer.

    names      exact names, and the mention as it is
    nearest    linking to the entities that own the nearest name: SapBERT
    contrast   SapBERT's loss and its hard pairs
    sapbert    training on synonyms
    blink      linking to the nearest description
    medlinker  a classifier over the entities of a training set, joined with approximate names
    encoders   a trained encoder, or a published checkpoint, by its path
    queries    the mentions of gold, and the form of an answer

Every `link_*` takes an ontology and documents and yields a prediction for each mention of gold.
"""
