"""Re-ranking the linker's candidates with a cross-attention encoder: section 3.5 of the paper.

config      settings
model       the Transformer with a linear layer on its top [CLS]
losses      the equation
candidates  what the linker finds for a mention whose entity is known
examples    mined mentions with the linker's candidates, kept on disk
dev         accuracy on mentions of documents held out
run         the loop
export      from torch to ONNX
tune        how many candidates to read, and how far to trust the scores
prepare     a re-ranker made ready
attach      and put into a linker

How a linker uses one is in `kriss.rank.rerank`, how pairs are made in `kriss.encoder.pairs`.
"""
