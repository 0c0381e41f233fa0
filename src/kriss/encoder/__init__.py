"""The encoder: the only place that windows, marks, tokenizes and pools a mention or an entity's reference.

    config    what a sequence is made of and how its vector is taken
    windows   text to token ids
    settings  what a saved encoder says of itself
    session   the two Transformers in ONNX Runtime
    base      where a model comes from
    model     the two Transformers in torch: loading, markers, saving
    export    from torch to ONNX, with a check on `samples`

Linking needs the first four and no torch.
"""
