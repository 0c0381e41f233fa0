"""Training the encoder on mined mentions: sections 3.2 to 3.4 of the paper.

config      settings and presets
losses      the equations
names       which names are kept from training, for the dev set
examples    mentions and entities of a training set, from the artifacts
batches     what a batch consists of, as a function of the step alone
neighbours  entities that are hard to tell apart
gradients   from a batch to gradients, in small memory, on any number of processes
dev         linking accuracy on held-out documents
checkpoint  a state to go on from
run         the loop
log         what a run says of itself
curves      the log as a picture
score       an encoder on the dev set of its own training
"""
