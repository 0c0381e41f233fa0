"""The encoder: the only place that windows, marks, tokenizes and pools a mention or an entity's reference.

    config      what a sequence is made of, how its vector is taken, and where a saved model says so
    windows     text to token ids
    pairs       a mention and a candidate as one sequence, for the re-ranker
    session     the Transformers in ONNX Runtime
    pretrained  models and tokenizers as they come, with markers added
    model       the two Transformers in torch: loading, pooling, saving
    export      from torch to ONNX, in 32 bits and (`quantize`) in eight, with a check on `samples`

Linking needs the first four and no torch.
"""
