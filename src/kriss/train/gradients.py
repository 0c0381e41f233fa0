"""From a batch to gradients: in the memory of one chunk if asked for, and across processes.

Every process encodes its part of the batch, gathers the vectors of the others, and computes the
loss of the whole; of the gradients it keeps those that reach its own vectors. Their sum over the
processes is the gradient of the whole batch, as one process alone would have computed it.

Gradient caching encodes twice: first without a graph, to know the loss and its gradient with
respect to every vector; then chunk by chunk with a graph, each chunk's vectors pulled by that
gradient. Dropout sees the same random numbers both times, and so leaves the same state behind.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import gather, reduce
from numpy.typing import NDArray
from torch import Tensor

from kriss.encoder.model import Encoder, Tower
from kriss.encoder.windows import Batch
from kriss.train.batches import TokenizedBatch
from kriss.train.config import TrainConfig
from kriss.train.losses import joint_loss

LossOf = Callable[[Tensor], Tensor]
Chunk = tuple[Tower, NDArray[np.int64], Batch]


def backward(encoder: Encoder, batch: TokenizedBatch, config: TrainConfig, processes: PartialState) -> float:
    """Add the gradients of a batch to the encoder's parameters, and return its loss."""
    chunks: list[Chunk] = [(encoder.mention, *part) for part in batch.mentions.batches(config.chunk)]
    if batch.references is not None:
        shift = len(batch.mentions)
        parts = batch.references.batches(config.chunk)
        chunks += [(encoder.reference, places + shift, part) for places, part in parts]
    device = processes.device
    order = torch.from_numpy(np.argsort(np.concatenate([places for _, places, _ in chunks]))).to(device)
    count = len(batch.mentions)

    def loss_of(vectors: Tensor) -> Tensor:
        c, r = vectors[:count], vectors[count:] if batch.references is not None else None
        return joint_loss(
            _gathered(c, processes),
            None if r is None else _gathered(r, processes),
            tau=config.tau,
            pi=config.pi,
            alpha=config.alpha,
            beta=config.beta,
        )

    if config.cache and len(chunks) > 1:
        loss = _cached(chunks, order, loss_of, config)
    else:
        with _autocast(config, device):
            vectors = torch.cat([tower.run(part) for tower, _, part in chunks])
        loss = loss_of(vectors.float()[order])
        loss.backward()  # type: ignore[no-untyped-call]
    _sum_over_processes(encoder, processes)
    return float(loss.detach())


def _cached(chunks: list[Chunk], order: Tensor, loss_of: LossOf, config: TrainConfig) -> Tensor:
    device, states, parts = order.device, [], []
    with torch.no_grad(), _autocast(config, device):
        for tower, _, part in chunks:
            states.append(_random_state(device))
            parts.append(tower.run(part))
    vectors = torch.cat(parts).float().requires_grad_()
    loss = loss_of(vectors[order])
    pulls = torch.split(torch.autograd.grad(loss, vectors)[0], [len(part) for part in parts])
    for (tower, _, part), state, pull in zip(chunks, states, pulls, strict=True):
        _set_random_state(state, device)
        with _autocast(config, device):
            found = tower.run(part)
        torch.autograd.backward(found, pull.to(found.dtype))
    return loss


def _autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
    half = config.precision == "bf16" or (config.precision == "auto" and fast)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=half)


def _gathered(own: Tensor, processes: PartialState) -> Tensor:
    """Return the vectors of all processes in the order of the batch; only one's own carry gradients."""
    if processes.num_processes == 1:
        return own
    everyone = list(gather(own.detach()).split(len(own)))
    everyone[processes.process_index] = own
    return torch.cat(everyone)


def _sum_over_processes(encoder: Encoder, processes: PartialState) -> None:
    if processes.num_processes == 1:
        return
    grads = [parameter.grad for parameter in encoder.parameters() if parameter.grad is not None]
    flat = reduce(torch.cat([grad.reshape(-1) for grad in grads]), reduction="sum")
    for grad, total in zip(grads, flat.split([grad.numel() for grad in grads]), strict=True):
        grad.copy_(total.view_as(grad))


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_random_state(state: tuple[Tensor, Tensor | None], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
