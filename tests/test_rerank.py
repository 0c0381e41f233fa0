"""Re-ranking: the sequence of a pair, the model, and what it is trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers.models.bert.modeling_bert import BertLayer

from kriss.encoder.config import PairConfig
from kriss.encoder.pairs import Option
from kriss.errors import ConfigError, DamagedError
from kriss.records import Entity, Excerpt
from kriss.rerank.config import RerankConfig
from kriss.rerank.export import FirstTokenLayer, only_first_token
from kriss.rerank.model import CrossEncoder, rerank_loss
from tests.train_fixtures import one_thread

__all__ = ["one_thread"]

SMALL = PairConfig(window=24, reference_window=24, prototype_window=16)
MENTION = Excerpt("the patient had chronic ", "renal failure", " and pain")
HEART = Option(Entity("X", "heart attack", ("cold",), ("disease",)), Excerpt("acute ", "chest pain", " of the heart"))
KIDNEY = Option(Entity("Y", "kidney disease", (), (), ("A 1",), "blood"), Excerpt.bare("renal disease"))


def loaded(model: Path, config: PairConfig = SMALL) -> CrossEncoder:
    """Return a model whose last layer is always the same."""
    torch.manual_seed(3)
    return CrossEncoder.from_pretrained(str(model), config, dropout=0.0)


def words(model: CrossEncoder, ids: list[int]) -> str:
    """Return a sequence as one can read it."""
    return " ".join(model._tokenizer.convert_ids_to_tokens(ids))


# --- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"candidates": 1}, "'candidates' must be at least 2, not 1"),
        ({"batch": 0}, "'batch' must be more than 0"),
        ({"p_mask": 1.5}, "'p_mask' is a number from 0 to 1"),
        ({"p_mask": 0.6, "p_replace": 0.6}, "at most 1 together"),
        ({"steps": 0, "epochs": 0.0}, "'steps' or 'epochs'"),
        ({"learning_rate": float("nan")}, "'learning_rate' must be a number"),
        ({"shown": "reference", "fields": ()}, "'fields' is empty"),
        ({"seed": -1}, "'seed' is a number from 0"),
        ({"weight_decay": -1.0}, "'weight_decay' must be at least 0"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        RerankConfig(**settings)


# --- sequences -------------------------------------------------------------------------------------

FIRST = "[CLS] the patient had chronic [M_s] renal failure [M_e] and pain [SEP]"
REFERENCE = "[SEP] disease [SEP] heart attack ; cold [SEP]"
PROTOTYPE = "acute [M_s] chest pain [M_e] of the heart [SEP]"


@pytest.mark.parametrize(
    ("shown", "second"),
    [("both", f"{REFERENCE} {PROTOTYPE}"), ("reference", REFERENCE), ("prototype", PROTOTYPE)],
)
def test_the_sequence_of_a_pair(tiny_model: Path, shown: Any, second: str) -> None:
    model = loaded(tiny_model, replace(SMALL, shown=shown))
    pairs = model.pairs([MENTION], [[HEART]])
    assert words(model, pairs.ids[0]) == f"{FIRST} {second}"
    assert pairs.spans == [(len(FIRST.split()), len(f"{FIRST} {second}".split()))]


def test_pairs_come_in_order_and_the_candidate_has_type_1(tiny_model: Path) -> None:
    model = loaded(tiny_model)
    other = replace(MENTION, masked=True)
    pairs = model.pairs([MENTION, other], [[HEART, KIDNEY], [KIDNEY]])
    kidney = "a 1 [SEP] [SEP] kidney disease [SEP] blood [SEP] [M_s] renal disease [M_e] [SEP]"
    masked = FIRST.replace("renal failure", "[MASK]")
    assert [words(model, ids) for ids in pairs.ids] == [
        f"{FIRST} {REFERENCE} {PROTOTYPE}",
        f"{FIRST} {kidney}",
        f"{masked} {kidney}",
    ]
    seen = []
    forward = model.forward
    model.forward = lambda ids, mask, types: seen.append((ids, mask, types)) or forward(ids, mask, types)  # type: ignore
    model.scores(pairs)
    [(ids, mask, types)] = seen
    for row, place in enumerate((0, 1, 2)):  # the longest first, as it happens
        first, last = pairs.spans[place]
        assert ids[row, :last].tolist() == pairs.ids[place]
        assert types[row].tolist() == [0] * first + [1] * (last - first) + [0] * (types.shape[1] - last)
        assert mask[row].tolist() == [1] * last + [0] * (types.shape[1] - last)


@given(
    left=st.lists(st.sampled_from(["cold", "[SEP]", "neurosis"]), max_size=60),
    size=st.integers(1, 20),
    many=st.integers(0, 60),
)
def test_a_mention_stays_whole_while_it_fits(tiny_model: Path, left: list[str], size: int, many: int) -> None:
    model = loaded(tiny_model)
    mention = Excerpt(" ".join([*left, ""]), " ".join(["gene"] * size), " of it" * many)
    prototype = Excerpt("the " * many, " ".join(["drug"] * min(size, 12)), "")
    entity = Entity("X", "kidney", tuple(f"alias {number}" for number in range(many)), definition="blood " * many)
    [ids] = model.pairs([mention], [[Option(entity, prototype)]]).ids
    text = words(model, ids)
    assert f"[M_s] {' '.join(['gene'] * size)} [M_e]" in text
    assert f"[M_s] {' '.join(['drug'] * min(size, 12))} [M_e]" in text
    assert "[SEP] kidney" in text
    assert text.count("[CLS]") == 1
    assert len(ids) <= SMALL.longest() == 24 + 23 + 15


# --- the model -------------------------------------------------------------------------------------


def test_sentence_transformers_gives_the_same_scores(tiny_model: Path, tmp_path: Path) -> None:
    import sentence_transformers

    model = loaded(tiny_model)
    model.save(tmp_path / "saved")
    options = [HEART, KIDNEY]
    ours = model.scores(model.pairs([MENTION], [options]))
    theirs = sentence_transformers.CrossEncoder(str(tmp_path / "saved"), device="cpu")
    first = "the patient had chronic [M_s] renal failure [M_e] and pain"
    seconds = [f"{REFERENCE} {PROTOTYPE}", "a 1 [SEP] [SEP] kidney disease [SEP] blood [SEP] [M_s] renal disease [M_e]"]
    found = theirs.predict([(first, second.removesuffix(" [SEP]")) for second in seconds])
    np.testing.assert_allclose(ours, found, atol=1e-5)
    assert abs(ours[0] - ours[1]) > 1e-3


def test_what_is_saved_is_read_again(tiny_model: Path, tmp_path: Path) -> None:
    model = loaded(tiny_model)
    model.save(tmp_path / "saved")
    again = CrossEncoder.load(tmp_path / "saved")
    assert again.pairs.config == SMALL
    assert again.pairs.tokens == model.pairs.tokens
    pairs = again.pairs([MENTION], [[HEART, KIDNEY]])
    assert pairs.ids == model.pairs([MENTION], [[HEART, KIDNEY]]).ids
    kept, read = (one.classifier.state_dict() for one in (model, again))
    assert kept.keys() == read.keys()
    assert all(torch.equal(kept[name], read[name]) for name in kept)
    # The same weights at another address: a processor may add them up in another order.
    np.testing.assert_allclose(again.scores(pairs), model.scores(pairs), rtol=1e-5)
    again.save(tmp_path / "again")
    for name in ("model.safetensors", "config.json", "tokenizer.json", "reranker.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()


def test_models_that_cannot_be_used(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reads at most 128 tokens, and a sequence may have 158"):
        CrossEncoder.from_pretrained(str(tiny_model), PairConfig(window=96))
    with pytest.raises(ConfigError, match="no usable model"):
        CrossEncoder.from_pretrained(str(tmp_path / "nowhere"), SMALL)
    with pytest.raises(DamagedError, match=r"there is no reranker.json"):
        CrossEncoder.load(tiny_model)
    (tmp_path / "reranker.json").write_text("{")
    with pytest.raises(DamagedError, match="cannot be read"):
        CrossEncoder.load(tmp_path)


# --- the loss --------------------------------------------------------------------------------------


def test_the_loss_and_its_gradient_by_hand() -> None:
    counts, gold = [5, 3, 2, 4], [0, 2, 1, 3]
    values = np.random.default_rng(1).normal(size=sum(counts))
    expected, pull = 0.0, []
    for own, at in zip(np.split(values, np.cumsum(counts)[:-1]), gold, strict=True):
        shares = np.exp(own) / np.exp(own).sum()
        expected -= np.log(shares[at])
        pull.append(shares - (np.arange(len(own)) == at))
    scores = torch.from_numpy(values).requires_grad_()
    loss = rerank_loss(scores, counts, gold)
    loss.backward()  # type: ignore[no-untyped-call]
    assert float(loss.detach()) == pytest.approx(expected)
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad.numpy(), np.concatenate(pull), atol=1e-12)


# --- the last layer for the first token alone ------------------------------------------------------


def scores_of(model: CrossEncoder, ids: Tensor, mask: Tensor) -> Tensor:
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
    for seen in (mask, padded):
        whole = scores_of(model, ids, seen)
        with only_first_token(model.classifier):
            assert isinstance(model.classifier.base_model.encoder.layer[-1], FirstTokenLayer)
            torch.testing.assert_close(scores_of(model, ids, seen), whole, atol=1e-6, rtol=1e-5)
        assert isinstance(model.classifier.base_model.encoder.layer[-1], BertLayer)
    assert not torch.allclose(scores_of(model, ids, mask), scores_of(model, ids, padded))  # the mask does count


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
