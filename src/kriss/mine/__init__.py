"""The second stage: from unlabeled text to mentions of an ontology's entities, each in its context.

    text ──► readers ──► matcher (names, casing, boundaries) ──► sample ──► shards ──► merge ──► mentions

`run.mine` does it all, with workers on this machine or on a cluster, as `kriss.work` has them.
"""
