"""The two Transformers in torch: one for mentions, one for the references of entities.

    encoder = Encoder.from_pretrained("minilm", EncoderConfig(pooling="mean", normalize=True))
    vectors = encoder.mentions([Mention.at(text, 14, 16)])       # numpy, one row each
    encoder.save(folder)                                         # loads in transformers as it is

The folder holds the mention encoder in Hugging Face's layout, the reference encoder below
`references/`, and in `encoder.json` what else is needed to make the same vectors again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from kriss.encoder.base import locate
from kriss.encoder.config import END, KNOWN_MARKERS, START, EncoderConfig, SpecialTokens
from kriss.encoder.settings import REFERENCES, TOKENIZER, read_settings, write_settings
from kriss.encoder.windows import Batch, Sequences, Windows
from kriss.errors import ConfigError
from kriss.records import Entity, Mention

_LIKENESS = {START: "[", END: "]"}
"""Where a new marker's embedding starts: brackets are what a text would use to set a stretch apart."""


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
        """Start both encoders from one model: `minilm`, a folder, or a name on the hub.

        A model that knows a pair of markers keeps it; to another two tokens are added, whose
        embeddings start as copies of those of brackets (or, without these, as the mean of all).
        """
        where = locate(model)
        tokenizer = _tokenizer(where, model)
        towers = [_tower(where, model, tokenizer, config, dropout) for _ in range(2)]
        start, end = _markers(tokenizer)
        roles = {role: getattr(tokenizer, f"{role}_token") for role in ("cls", "sep", "pad", "mask")}
        tokens = SpecialTokens(**roles, start=start, end=end)
        return cls(Windows(tokenizer.backend_tokenizer, tokens, config), tokenizer, *towers)

    @classmethod
    def load(cls, folder: Path, *, dropout: float | None = None) -> Self:
        """Read an encoder that `save` wrote."""
        tokens, config = read_settings(folder)
        tokenizer = _tokenizer(str(folder), str(folder))
        mention = _tower(str(folder), str(folder), tokenizer, config, dropout)
        below = str(folder / REFERENCES)
        reference = _tower(below, below, tokenizer, config, dropout)
        return cls(Windows.load(folder / TOKENIZER, tokens, config), tokenizer, mention, reference)

    def save(self, folder: Path) -> None:
        """Write the encoder so that kriss, transformers and sentence-transformers can read it."""
        folder.mkdir(parents=True, exist_ok=True)
        for tower, where in ((self.mention, folder), (self.reference, folder / REFERENCES)):
            tower.backbone.save_pretrained(where)
            mode = (where / "config.json").stat().st_mode
            (where / "model.safetensors").chmod(mode)  # safetensors lets nobody but the owner read
        self._tokenizer.backend_tokenizer.encode_special_tokens = False  # that is kriss's own wish
        self._tokenizer.save_pretrained(folder)
        self._tokenizer.backend_tokenizer.encode_special_tokens = True
        write_settings(folder, self.windows.tokens, self.config)
        _write_modules(folder, self.config, int(self.mention.backbone.config.hidden_size))

    def mentions(self, mentions: Sequence[Mention], size: int = 64) -> NDArray[np.float32]:
        """Return c for each mention."""
        return self.vectors(self.mention, self.windows.mentions(mentions), size)

    def references(self, entities: Sequence[Entity], size: int = 64) -> NDArray[np.float32]:
        """Return r for each entity."""
        return self.vectors(self.reference, self.windows.references(entities), size)

    def vectors(self, tower: Tower, sequences: Sequences, size: int) -> NDArray[np.float32]:
        """Return the vectors that one of the two Transformers gives, without gradients or dropout."""
        training = tower.training
        tower.eval()
        try:
            with torch.inference_mode():
                return sequences.encode(lambda batch: tower.run(batch).float().cpu().numpy(), size)
        finally:
            tower.train(training)


def _tokenizer(where: str, model: str) -> Any:  # noqa: ANN401 - transformers has no common type
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - whatever the hub, the folder or a parser raises
        raise _no_model(model, error) from None
    lacking = [role for role in ("cls", "sep", "pad", "mask") if getattr(tokenizer, f"{role}_token") is None]
    if lacking or not tokenizer.is_fast:
        raise ConfigError(f"the tokenizer of '{model}' has no {lacking[0] if lacking else 'fast'} token: not BERT-like")
    # A known marker keeps its id; made special, it is plain text where a document happens to spell it.
    tokenizer.add_tokens(list(_markers(tokenizer)), special_tokens=True)
    return tokenizer


def _markers(tokenizer: Any) -> tuple[str, str]:  # noqa: ANN401
    vocabulary = tokenizer.get_vocab()
    return next((pair for pair in KNOWN_MARKERS if set(pair) <= vocabulary.keys()), (START, END))


def _tower(where: str, model: str, tokenizer: Any, config: EncoderConfig, dropout: float | None) -> Tower:  # noqa: ANN401
    noisy = logging.getLogger("transformers")
    level = noisy.level
    noisy.setLevel(logging.ERROR)  # a pooler that is not in the file is not missed
    rates = {} if dropout is None else {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    try:
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        backbone = transformers.AutoModel.from_pretrained(where, dtype=torch.float32)
    except Exception as error:  # noqa: BLE001 - whatever the hub, the folder or a parser raises
        raise _no_model(model, error) from None
    finally:
        noisy.setLevel(level)
    for module in backbone.modules():
        if dropout is not None and isinstance(module, torch.nn.Dropout):
            module.p = dropout
        if dropout is not None and isinstance(getattr(module, "dropout_prob", None), float):
            module.dropout_prob = dropout
    for key, value in rates.items():
        if hasattr(backbone.config, key):
            setattr(backbone.config, key, value)
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    _add_markers(backbone, tokenizer)
    positions = getattr(backbone.config, "max_position_embeddings", config.window)
    if max(config.window, config.reference_window) > positions:
        raise ConfigError(f"'{model}' reads at most {positions} tokens; take a smaller window")
    return Tower(backbone, normalize=config.normalize)


def _add_markers(backbone: Any, tokenizer: Any) -> None:  # noqa: ANN401
    """Give tokens that the model does not have yet an embedding, copied from the token most like them."""
    have = backbone.get_input_embeddings().weight.shape[0]
    if len(tokenizer) <= have:
        return
    backbone.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weight = backbone.get_input_embeddings().weight.data
    vocabulary = tokenizer.get_vocab()
    for token, number in vocabulary.items():
        if number >= have:
            like = vocabulary.get(_LIKENESS.get(token, ""))
            weight[number] = weight[like] if like is not None else weight[:have].mean(dim=0)


def _no_model(model: str, error: Exception) -> ConfigError:
    reason = " ".join(str(error).split())[:200]
    return ConfigError(f"no usable model '{model}': give 'minilm', a folder, or a name on the hub ({reason})")


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
