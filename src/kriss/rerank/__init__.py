"""Re-ranking the linker's candidates with a cross-attention encoder: section 3.5 of the paper.

config      settings
pairs       a mention and a candidate as one sequence
model       the Transformer with a linear layer on its top [CLS]
losses      the equation
candidates  what the linker finds for a mention whose entity is known
examples    mined mentions with the linker's candidates, kept on disk
dev         accuracy on mentions of documents held out
run         the loop
"""
