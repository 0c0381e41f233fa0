"""The trainer of sentence-transformers with an in-batch loss, on the encoder and texts that kriss is given.

    python run.py MODEL PAIRS BATCH STEPS WARM

MODEL is a folder that sentence-transformers loads, PAIRS a JSON list of pairs of marked texts; a
batch has BATCH pairs. One JSON object is printed: seconds of STEPS steps after WARM others, and
the sequences encoded in them. Settings are those of its documentation, with the optimizer's fused
form, fp32, no evaluation and no saving.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(model: str, pairs: Path, batch: int, steps: int, warm: int) -> None:
    """Train, and print how long the steps after the first took."""
    from datasets import Dataset  # type: ignore[import-not-found]
    from sentence_transformers import (  # type: ignore[import-not-found,unused-ignore]
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss  # type: ignore[import-not-found,unused-ignore]
    from transformers import TrainerCallback  # type: ignore[import-not-found,unused-ignore]

    class Clock(TrainerCallback):  # type: ignore[misc,unused-ignore]
        """Notes when each step ended."""

        ends: list[float] = []  # noqa: RUF012 - one trainer, one clock

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the trainer's own
            self.ends.append(time.perf_counter())

    encoder = SentenceTransformer(model, device="cpu")
    rows = json.loads(pairs.read_text(encoding="utf-8"))
    data = Dataset.from_dict({"anchor": [one for one, _ in rows], "positive": [other for _, other in rows]})
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(pairs.parent / "peer"),
        per_device_train_batch_size=batch,
        max_steps=steps + warm,
        learning_rate=1e-5,
        optim="adamw_torch_fused",
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
    )
    clock = Clock()
    trainer = SentenceTransformerTrainer(
        model=encoder,
        args=arguments,
        train_dataset=data,
        loss=MultipleNegativesRankingLoss(encoder, scale=1.0),
        callbacks=[clock],
    )
    trainer.train()
    seconds = clock.ends[-1] - clock.ends[warm - 1]
    print(json.dumps({"seconds": seconds, "sequences": 2 * batch * steps}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:6]))
