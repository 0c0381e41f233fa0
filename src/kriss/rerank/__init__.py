"""Re-ranking the linker's candidates with a cross-attention encoder: section 3.5 of the paper.

config      settings
model       the Transformer with a linear layer on its top [CLS], and the loss
examples    mined mentions with the linker's candidates
run         the training, the score on dev mentions, the weight in the linker
export      from torch to ONNX

How a linker uses one is in `kriss.rank.rerank`, how pairs are made in `kriss.encoder.pairs`.
"""
