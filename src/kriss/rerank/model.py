"""The cross-attention encoder in torch: a mention and a candidate in, one score out.

    model = CrossEncoder.from_pretrained("minilm", PairConfig())
    scores = model.scores(model.pairs([mention], [options]))      # numpy, one score an option
    model.save(folder)                                            # loads in sentence-transformers as it is

The Transformer and its linear layer on the top [CLS] are what transformers calls a sequence classification model
with one label; with BERT its pooler, a dense layer with tanh, stands between the two, which the paper does not
mention. `reranker.json` says how sequences are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from kriss.encoder.config import PairConfig, read_settings, write_settings
from kriss.encoder.pairs import SETTINGS, Pairs
from kriss.encoder.pretrained import locate, read_model, read_tokenizer, save_model, save_tokenizer, special_tokens
from kriss.encoder.windows import Batch, Sequences

_PLAIN = {"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"}
"""What makes sentence-transformers give scores as they are, and not between 0 and 1."""


def rerank_loss(scores: Tensor, counts: Sequence[int], gold: Sequence[int]) -> Tensor:
    """Return the sum over mentions: each must give its correct entity the best score among its candidates.

    `scores` are those of the first mention's candidates, then of the second's; `counts` says how many each has, `gold`
    which of them is correct.

    l(m_i) = -log( exp(s(m_i, e_gold)) / sum_{k=1..K} exp(s(m_i, e_k)) )
    """
    each = zip(torch.split(scores, list(counts)), gold, strict=True)
    return torch.stack([own.logsumexp(0) - own[right] for own, right in each]).sum()


class CrossEncoder(torch.nn.Module):
    """Scores a candidate for a mention; the higher, the likelier."""

    def __init__(self, pairs: Pairs, tokenizer: Any, classifier: Any) -> None:  # noqa: ANN401 - transformers
        super().__init__()
        self.pairs = pairs
        self.classifier = classifier
        self._tokenizer = tokenizer
        self._has_types = getattr(classifier.config, "type_vocab_size", 0) > 1

    @classmethod
    def from_pretrained(cls, model: str, config: PairConfig, *, dropout: float | None = None) -> Self:
        """Start from a model: `minilm`, a folder, or a name on the hub; the last layer is drawn at random."""
        where = locate(model)
        tokenizer = read_tokenizer(where, model)
        classifier = _classifier(where, model, tokenizer, config, dropout)
        return cls(Pairs(tokenizer.backend_tokenizer, special_tokens(tokenizer), config), tokenizer, classifier)

    @classmethod
    def load(cls, folder: Path, *, dropout: float | None = None) -> Self:
        """Read a re-ranker that `save` wrote."""
        tokens, config = read_settings(folder / SETTINGS, PairConfig, "train the re-ranker again")
        tokenizer = read_tokenizer(str(folder), str(folder))
        classifier = _classifier(str(folder), str(folder), tokenizer, config, dropout)
        return cls(Pairs(tokenizer.backend_tokenizer, tokens, config), tokenizer, classifier)

    def save(self, folder: Path) -> None:
        """Write the re-ranker so that kriss, transformers and sentence-transformers can read it."""
        self.classifier.config.sentence_transformers = _PLAIN
        save_model(self.classifier, folder)
        save_tokenizer(self._tokenizer, folder)
        write_settings(folder / SETTINGS, self.pairs.tokens, self.pairs.config)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        """Return one score a sequence; `types` is 1 where the candidate is."""
        given = {"token_type_ids": types} if self._has_types else {}
        scores: Tensor = self.classifier(input_ids=ids, attention_mask=mask, **given).logits[:, 0]
        return scores

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def run(self, batch: Batch) -> Tensor:
        """Return the scores of a batch of numpy arrays, whose pooled tokens are the candidate's."""
        types = (batch.pool > 0).astype(np.int64)
        ids, mask, kinds = (torch.from_numpy(array).to(self.device) for array in (batch.ids, batch.mask, types))
        scores: Tensor = self(ids, mask, kinds)
        return scores

    def scores(self, pairs: Sequences, size: int = 64) -> NDArray[np.float32]:
        """Return the scores of sequences in their order, without gradients or dropout."""
        training = self.training
        self.eval()
        try:
            with torch.inference_mode():
                found = pairs.encode(lambda batch: self.run(batch).float().cpu().numpy()[:, None], size)
                return found.reshape(len(pairs))
        finally:
            self.train(training)


def _classifier(where: str, model: str, tokenizer: Any, config: PairConfig, dropout: float | None) -> Any:  # noqa: ANN401
    auto = transformers.AutoModelForSequenceClassification
    return read_model(auto, where, model, tokenizer, longest=config.longest(), dropout=dropout, num_labels=1)
