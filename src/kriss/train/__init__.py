"""Training the encoder on mined mentions: sections 3.2 to 3.4 of the paper.

config      settings and presets
losses      the equations
examples    mentions and entities of a training set, from the artifacts; the names that it never sees
batches     what a batch consists of, as a function of the step alone
gradients   from a batch to gradients, in small memory, on any number of processes
dev         linking accuracy on held-out documents
loop        the steps of any training, its dev scores, checkpoints and log
run         the training of an encoder
checkpoint  a state to go on from
log         what a run says of itself
"""
