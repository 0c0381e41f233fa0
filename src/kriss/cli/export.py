"""`kriss export`: an encoder for linking without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kriss.cli.extras import need_training


def export(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="An encoder that kriss wrote, minilm, a folder, or a name on the hub."),
    ],
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where to write the encoder.")],
    int8: Annotated[bool, typer.Option(help="Write graphs with weights of eight bits as well.")] = False,
    pooling: Annotated[
        str | None, typer.Option(metavar="HOW", help="cls as in the paper, mean, or mention.  [default: cls]")
    ] = None,
    window: Annotated[int | None, typer.Option(metavar="N", help="Tokens around a mention.  [default: 64]")] = None,
    normalize: Annotated[bool | None, typer.Option(help="Give vectors length 1.  [default: no-normalize]")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the encoder at --out.")] = False,
) -> None:
    """Write an encoder with ONNX graphs, which link without torch; each is compared with torch first."""
    need_training("kriss export", "onnx", "onnxscript")
    from kriss.encoder.export import export_encoder

    settings = {"pooling": pooling, "window": window, "normalize": normalize}
    facts = export_encoder(model, out, int8=int8, force=force, settings=settings)
    for precision, parts in facts["onnx"].items():
        least = min(part["min_cosine"] for part in parts.values())
        typer.echo(f"{out}: {precision} graphs, cosine with torch at least {least:.4f}")
