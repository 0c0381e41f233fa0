"""The encoder: the only place that windows, marks, tokenizes and pools a mention or an entity's reference.

    config    what a sequence is made of and how its vector is taken
    windows   text to token ids: no torch, so that linking needs none
    model     the two Transformers in torch: loading, markers, saving
    session   the same two in ONNX Runtime
    export    from the one to the other, with a check
"""
