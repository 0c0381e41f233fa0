"""The last layer for the first token alone gives the same scores, and leaves the model as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers.models.bert.modeling_bert import BertLayer

from kriss.encoder.pairs import PairConfig
from kriss.rerank.first_token import FirstTokenLayer, only_first_token
from kriss.rerank.model import CrossEncoder


def scores(model: CrossEncoder, ids: Tensor, mask: Tensor) -> Tensor:
    types = (torch.arange(ids.shape[1]) > 3).long().expand_as(ids)
    with torch.inference_mode():
        found: Tensor = model.eval()(ids, mask, types)
    return found


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_scores_are_the_same_with_padding_and_without(tiny_model: Path, attention: str) -> None:
    torch.manual_seed(1)
    model = CrossEncoder.from_pretrained(str(tiny_model), PairConfig())
    model.classifier.base_model.set_attn_implementation(attention)
    ids = torch.randint(5, 30, (4, 11))
    mask = torch.ones_like(ids)
    padded = mask.clone()
    padded[1, 7:] = 0
    padded[3, 2:] = 0
    for given in (mask, padded):
        whole = scores(model, ids, given)
        with only_first_token(model.classifier):
            assert isinstance(model.classifier.base_model.encoder.layer[-1], FirstTokenLayer)
            torch.testing.assert_close(scores(model, ids, given), whole, atol=1e-6, rtol=1e-5)
        assert isinstance(model.classifier.base_model.encoder.layer[-1], BertLayer)
    assert not torch.allclose(scores(model, ids, mask), scores(model, ids, padded))  # the mask does count


def test_the_model_is_whole_again_after_an_error(tiny_model: Path) -> None:
    model = CrossEncoder.from_pretrained(str(tiny_model), PairConfig())
    with pytest.raises(ValueError, match="no"), only_first_token(model.classifier):
        raise ValueError("no")
    assert isinstance(model.classifier.base_model.encoder.layer[-1], BertLayer)


def test_another_kind_of_model_is_left_as_it_is() -> None:
    class Other(torch.nn.Module):
        @property
        def base_model(self) -> torch.nn.Module:
            return self

    other = Other()
    before = dict(other.named_modules())
    with only_first_token(other):
        assert dict(other.named_modules()) == before
