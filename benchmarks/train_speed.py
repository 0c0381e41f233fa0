"""How fast a training step of kriss is, and how much memory it needs.

    python benchmarks/train_speed.py ONTOLOGY MENTIONS [--batch 64] [--steps 4] [--repeat 2]

In one run, on MiniLM at 64 tokens with the paper's settings but for the batch, each measurement in
a process of its own, those that are compared taking turns; the best of each counts:

- a whole training step: drawing, tokenizing, encoding, losses, clipping, AdamW;
- a bare forward and backward of the same tokenized sequences, in the same chunks;
- the trainer of sentence-transformers (MultipleNegativesRankingLoss) on the same mentions, without
  references, against a kriss step without references;
- the peak of memory of a step with 512 mentions, with and without gradient caching.

Dropout is that of the model's own configuration (0.1) everywhere.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.figures import Figure, main_step, peer_python, report, run_step

    from kriss.train.config import TrainConfig
else:  # run as a script, its folder is where modules are looked for
    from figures import Figure, main_step, peer_python, report, run_step

HERE = Path(__file__).resolve().parent
WARM = 1
"""Steps before the clock starts."""


def settings(given: dict[str, Any]) -> TrainConfig:
    from kriss.train.config import PAPER

    return replace(PAPER, model="minilm", batch=given["batch"], beta=given["beta"], cache=given["cache"], chunk=64)


def step_train(given: dict[str, Any]) -> dict[str, Any]:
    """Time whole training steps."""
    import torch
    from accelerate import PartialState

    from kriss.encoder.model import Encoder
    from kriss.ontology import Ontology
    from kriss.train.batches import Sampler
    from kriss.train.examples import TrainingSet
    from kriss.train.gradients import backward

    config = settings(given)
    examples = TrainingSet(Ontology.load(given["ontology"]), Path(given["mentions"]), config)
    sampler = Sampler(examples, config)
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout).train()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=config.learning_rate, weight_decay=0.0, fused=True)
    processes = PartialState(cpu=True)
    steps, sequences, began, tokens = range(given["steps"] + WARM), 0, 0.0, 0
    for batch in sampler.batches(encoder.windows, steps):
        if batch.step == WARM:
            began = time.perf_counter()
        backward(encoder, batch, config, processes)
        torch.nn.utils.clip_grad_norm_(encoder.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad()
        if batch.step >= WARM:
            sequences += len(batch)
            tokens += sum(map(len, batch.mentions.ids + (batch.references.ids if batch.references else [])))
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "sequences": sequences, "tokens": tokens, "mb": peak()}


def step_bare(given: dict[str, Any]) -> dict[str, Any]:
    """Time forward and backward of the same sequences, tokenized before the clock starts."""
    import torch

    from kriss.encoder.model import Encoder
    from kriss.ontology import Ontology
    from kriss.train.batches import Sampler
    from kriss.train.examples import TrainingSet

    config = settings(given)
    examples = TrainingSet(Ontology.load(given["ontology"]), Path(given["mentions"]), config)
    sampler = Sampler(examples, config)
    encoder = Encoder.from_pretrained(config.model, config.encoder(), dropout=config.dropout).train()
    steps = range(given["steps"] + WARM)
    batches = [sampler.batch(encoder.windows, step) for step in steps]
    sequences, began = 0, 0.0
    for batch in batches:
        if batch.step == WARM:
            began = time.perf_counter()
        for tower, found in ((encoder.mention, batch.mentions), (encoder.reference, batch.references)):
            for _, part in found.batches(config.chunk) if found else ():
                torch.autograd.backward(tower.run(part).sum())
        encoder.zero_grad()
        sequences += len(batch) * (batch.step >= WARM)
    return {"seconds": time.perf_counter() - began, "sequences": sequences}


def step_pairs(given: dict[str, Any]) -> dict[str, Any]:
    """Write the mentions of the same batches as marked text, cut to the window, and the encoder, for the peer."""
    from kriss.encoder.model import Encoder
    from kriss.ontology import Ontology
    from kriss.train.batches import Sampler
    from kriss.train.examples import TrainingSet

    config, work = settings(given), Path(given["work"])
    examples = TrainingSet(Ontology.load(given["ontology"]), Path(given["mentions"]), config)
    sampler = Sampler(examples, config)
    encoder = Encoder.from_pretrained(config.model, config.encoder())
    encoder.save(work / "model")
    marks = encoder.windows.tokens
    texts = []
    for step in range(given["steps"] + WARM):
        rows = sampler.entities_at(step)
        for mention in sampler.mentions_at(step, rows, 0):
            surface = marks.mask if mention.masked else mention.surface
            # As much context as the window holds, so that both encode sequences of one length.
            texts.append(f"{mention.left[-130:]} {marks.start} {surface} {marks.end} {mention.right}")
    pairs = list(zip(texts[::2], texts[1::2], strict=True))
    (work / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    return {"pairs": len(pairs)}


def peak() -> float:
    """Return the most memory this process has had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peer(work: Path, batch: int, steps: int) -> dict[str, Any]:
    """Run the peer in its environment, made now unless it is there."""
    python = peer_python("trainer", work)
    command = [python, str(HERE / "peers" / "trainer" / "run.py"), str(work / "model"), str(work / "pairs.json")]
    done = subprocess.run([*command, str(batch // 2), str(steps), str(WARM)], check=True, stdout=subprocess.PIPE)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"sentence-transformers: {answer}", file=sys.stderr)
    return answer


STEPS: dict[str, Callable[[Any], dict[str, Any]]] = {"train": step_train, "bare": step_bare, "pairs": step_pairs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ontology")
    parser.add_argument("mentions")
    parser.add_argument("--work", type=Path, default=Path("out/benchmarks"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    script = Path(__file__)
    base = {"ontology": options.ontology, "mentions": options.mentions, "work": str(options.work)}
    given = base | {"batch": options.batch, "steps": options.steps, "cache": False}
    run_step(script, "pairs", given | {"beta": 0.0})
    rates: dict[str, list[float]] = {}
    for _ in range(options.repeat):
        found = {
            "bare": run_step(script, "bare", given | {"beta": 0.5}),
            "kriss": run_step(script, "train", given | {"beta": 0.5}),
            "kriss without references": run_step(script, "train", given | {"beta": 0.0}),
            "sentence-transformers": peer(options.work, options.batch, options.steps),
        }
        for name, answer in found.items():
            rates.setdefault(name, []).append(answer["sequences"] / answer["seconds"])
    best = {name: max(values) for name, values in rates.items()}
    memory = {
        cache: run_step(script, "train", base | {"batch": 512, "steps": 1, "beta": 0.5, "cache": cache})
        for cache in (False, True)
    }
    small = run_step(script, "train", base | {"batch": 32, "steps": 1, "beta": 0.5, "cache": False})
    figures = [
        Figure("kriss, whole step", best["kriss"], "sequences/s"),
        Figure("of a bare forward and backward", best["kriss"] / best["bare"], "times", 0.9, at_least=True),
        Figure(
            "of sentence-transformers' trainer",
            best["kriss without references"] / best["sentence-transformers"],
            "times",
            1.0,
            at_least=True,
        ),
        Figure("memory, 512 mentions, plain", memory[False]["mb"], "MB"),
        Figure("memory, 512 mentions, cached", memory[True]["mb"], "MB"),
        Figure("memory, 32 mentions, plain", small["mb"], "MB"),
    ]
    report("training, MiniLM, 64 tokens", figures, {"rates": rates, "memory": memory}, options.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        main_step(STEPS, sys.argv[2:])
    else:
        main()
