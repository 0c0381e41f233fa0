"""The two Transformers in torch: one for mentions, one for the references of entities.

    encoder = Encoder.from_pretrained("minilm", EncoderConfig(pooling="mean", normalize=True))
    vectors = encoder.mentions([Excerpt.at(text, 14, 16)])       # numpy, one row each
    encoder.save(folder)                                         # loads in transformers as it is

The folder holds the mention encoder in Hugging Face's layout, the reference encoder below
`references/`, and in `encoder.json` what else is needed to make the same vectors again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from kriss.encoder.config import REFERENCES, SETTINGS, TOKENIZER, EncoderConfig, read_settings, write_settings
from kriss.encoder.pretrained import locate, read_model, read_tokenizer, save_model, save_tokenizer, special_tokens
from kriss.encoder.windows import Batch, Sequences, Windows, read_fast_tokenizer
from kriss.records import Entity, Excerpt


class Tower(torch.nn.Module):
    """One Transformer, and a vector for each sequence: the pooled last layer, of length 1 if asked for."""

    def __init__(self, backbone: Any, *, normalize: bool) -> None:  # noqa: ANN401 - transformers has no common type
        super().__init__()
        self.backbone = backbone
        self.normalize = normalize

    def forward(self, ids: Tensor, mask: Tensor, pool: Tensor) -> Tensor:
        """Return one vector a sequence; `pool` are the weights of its tokens."""
        hidden = self.backbone(input_ids=ids, attention_mask=mask).last_hidden_state
        vectors = torch.einsum("bt,btd->bd", pool.to(hidden.dtype), hidden)
        return torch.nn.functional.normalize(vectors, dim=-1) if self.normalize else vectors

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def run(self, batch: Batch) -> Tensor:
        """Return the vectors of a batch of numpy arrays."""
        ids, mask, pool = (torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.mask, batch.pool))
        vectors: Tensor = self(ids, mask, pool)
        return vectors

    def vectors(self, sequences: Sequences, size: int = 64) -> NDArray[np.float32]:
        """Return the vectors of sequences in their order, without gradients or dropout."""
        training = self.training
        self.eval()
        try:
            with torch.inference_mode():
                return sequences.encode(lambda batch: self.run(batch).float().cpu().numpy(), size)
        finally:
            self.train(training)


class Encoder(torch.nn.Module):
    """Mentions and entities to vectors of one space."""

    def __init__(self, windows: Windows, tokenizer: Any, mention: Tower, reference: Tower) -> None:  # noqa: ANN401
        super().__init__()
        self.windows = windows
        self.mention = mention
        self.reference = reference
        self._tokenizer = tokenizer

    @property
    def config(self) -> EncoderConfig:
        """How sequences are made and pooled."""
        return self.windows.config

    @classmethod
    def from_pretrained(cls, model: str, config: EncoderConfig, *, dropout: float | None = None) -> Self:
        """Start both encoders from one model: `minilm`, a folder, or a name on the hub."""
        where = locate(model)
        tokenizer = read_tokenizer(where, model)
        towers = [_tower(where, model, tokenizer, config, dropout) for _ in range(2)]
        return cls(Windows(tokenizer.backend_tokenizer, special_tokens(tokenizer), config), tokenizer, *towers)

    @classmethod
    def load(cls, folder: Path, *, dropout: float | None = None) -> Self:
        """Read an encoder that `save` wrote."""
        tokens, config = read_settings(folder / SETTINGS, EncoderConfig)
        tokenizer = read_tokenizer(str(folder), str(folder))
        mention = _tower(str(folder), str(folder), tokenizer, config, dropout)
        below = str(folder / REFERENCES)
        reference = _tower(below, below, tokenizer, config, dropout)
        return cls(Windows(read_fast_tokenizer(folder / TOKENIZER), tokens, config), tokenizer, mention, reference)

    def save(self, folder: Path) -> None:
        """Write the encoder so that kriss, transformers and sentence-transformers can read it."""
        for tower, where in ((self.mention, folder), (self.reference, folder / REFERENCES)):
            save_model(tower.backbone, where)
        save_tokenizer(self._tokenizer, folder)
        write_settings(folder / SETTINGS, self.windows.tokens, self.config)
        _write_modules(folder, self.config, int(self.mention.backbone.config.hidden_size))

    def mentions(self, mentions: Sequence[Excerpt], size: int = 64) -> NDArray[np.float32]:
        """Return c for each mention."""
        return self.mention.vectors(self.windows.mentions(mentions), size)

    def references(self, entities: Sequence[Entity], size: int = 64) -> NDArray[np.float32]:
        """Return r for each entity."""
        return self.reference.vectors(self.windows.references(entities), size)


def _tower(where: str, model: str, tokenizer: Any, config: EncoderConfig, dropout: float | None) -> Tower:  # noqa: ANN401
    longest = max(config.window, config.reference_window)
    backbone = read_model(transformers.AutoModel, where, model, tokenizer, longest=longest, dropout=dropout)
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    return Tower(backbone, normalize=config.normalize)


def _write_modules(folder: Path, config: EncoderConfig, width: int) -> None:
    """Tell sentence-transformers how to pool; it has no notion of a marked span."""
    if config.pooling == "mention":
        return
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * config.normalize
    listed = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(modules)
    ]
    files = {
        "modules.json": listed,
        "sentence_bert_config.json": {"max_seq_length": config.window, "do_lower_case": False},
        "1_Pooling/config.json": {
            "word_embedding_dimension": width,
            "pooling_mode_cls_token": config.pooling == "cls",
            "pooling_mode_mean_tokens": config.pooling == "mean",
        },
    }
    if config.normalize:
        (folder / "2_Normalize").mkdir(exist_ok=True)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
