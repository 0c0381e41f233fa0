"""`kriss export`: an encoder for linking without torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from kriss.cli.extras import need_training
from kriss.cli.options import with_settings
from kriss.encoder.config import EncoderConfig


@with_settings
def export(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="An encoder that kriss wrote, minilm, a folder, or a name on the hub."),
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the encoder.")],
    int8: Annotated[bool, typer.Option(help="Write graphs with weights of eight bits as well.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the encoder at --out.")] = False,
    settings: EncoderConfig,
    given: Mapping[str, Any],
) -> None:
    """Write an encoder with ONNX graphs, which link without torch; each is compared with torch first."""
    need_training("kriss export", "onnx", "onnxscript")
    from kriss.encoder.export import export_encoder

    facts = export_encoder(model, out, int8=int8, force=force, settings=given)
    for precision, parts in facts["onnx"].items():
        least = min(part["min_cosine"] for part in parts.values())
        typer.echo(f"{out}: {precision} graphs, cosine with torch at least {least:.4f}")
