"""Softmax regression over words, trained by a gang: each rank has its share of the lines and
the gradients are summed over TCP. Writes checkpoints and goes on from the newest one."""

import json
import math
import os
import re
import time
from pathlib import Path

from gang import Gang

EPOCHS = int(os.environ.get("EPOCHS", "40"))
EPOCH_S = float(os.environ.get("EPOCH_S", "0"))  # stretches an epoch, to watch the queue
CHECKPOINT_EVERY = 10
RATE = 8.0
DECAY = 1e-3
CHECKPOINTS = Path("work/checkpoints")


def load():
    """All training rows, the labels and the vocabulary, in an order every rank agrees on."""
    rows = []
    for shard in sorted(Path("work/shards").glob("*.jsonl")):
        rows += [json.loads(line) for line in shard.read_text().splitlines()]
    rows = [row for row in rows if not row["test"]]
    if not rows:
        raise SystemExit("no shards in work/shards: run preprocess first")
    labels = sorted({row["label"] for row in rows})
    vocabulary = sorted({word for row in rows for word in row["words"]})
    return rows, labels, vocabulary


def newest_checkpoint():
    """(epoch, weights) to go on from; epoch 0 where there is none."""
    files = sorted(CHECKPOINTS.glob("epoch-*.json"),
                   key=lambda file: int(re.sub(r"\D", "", file.stem)))
    if not files:
        return 0, None
    saved = json.loads(files[-1].read_text())
    return saved["epoch"], saved["weights"]


def gradient(rows, weights, labels, index):
    """Loss and gradient of these rows, the loss last."""
    width = len(index)
    out = [0.0] * (len(labels) * width + 1)
    for row in rows:
        features = [(index[word], count) for word, count in row["words"].items()]
        scores = [sum(weights[k * width + i] * n for i, n in features)
                  for k in range(len(labels))]
        top = max(scores)
        parts = [math.exp(score - top) for score in scores]
        total = sum(parts)
        for k, label in enumerate(labels):
            share = parts[k] / total
            miss = share - (label == row["label"])
            for i, n in features:
                out[k * width + i] += miss * n
            if label == row["label"]:
                out[-1] -= math.log(max(share, 1e-12))
    return out


def save(epoch, weights, labels, vocabulary):
    CHECKPOINTS.mkdir(parents=True, exist_ok=True)
    draft = CHECKPOINTS / ".draft"
    draft.write_text(json.dumps(
        {"epoch": epoch, "labels": labels, "vocabulary": vocabulary, "weights": weights}))
    draft.rename(CHECKPOINTS / f"epoch-{epoch}.json")


def main():
    rows, labels, vocabulary = load()
    index = {word: i for i, word in enumerate(vocabulary)}
    gang = Gang()
    first, weights = newest_checkpoint()
    # Rank 0 may have written one more than another rank saw: all begin where rank 0 begins.
    state = [0.0] * (1 + len(labels) * len(vocabulary))
    if gang.rank == 0:
        state = [float(first)] + (weights or state[1:])
    state = gang.sum(state)
    first, weights = int(state[0]), state[1:]
    mine = rows[gang.rank::gang.size]
    host = os.environ.get("SLURMD_NODENAME", "this machine")
    begin = f"goes on from epoch {first}" if first else "begins"
    print(f"rank {gang.rank} of {gang.size} on {host}: {len(mine)} of {len(rows)} lines, {begin}",
          flush=True)
    for epoch in range(first + 1, EPOCHS + 1):
        start = time.monotonic()
        total = gang.sum(gradient(mine, weights, labels, index))
        loss = total.pop() / len(rows)
        weights = [w - RATE * (g / len(rows) + DECAY * w) for w, g in zip(weights, total)]
        if gang.rank == 0 and (epoch % CHECKPOINT_EVERY == 0 or epoch == EPOCHS):
            save(epoch, weights, labels, vocabulary)
            print(f"epoch {epoch}: loss {loss:.4f}, checkpoint written", flush=True)
        time.sleep(max(0.0, EPOCH_S - (time.monotonic() - start)))


main()
