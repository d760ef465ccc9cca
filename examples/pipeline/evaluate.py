"""Reads the newest checkpoint and measures it on the lines that training never saw."""

import json
from pathlib import Path

from model import Model


def main():
    model = Model.newest()
    right = {}
    seen = {}
    for shard in sorted(Path("work/shards").glob("*.jsonl")):
        for row in map(json.loads, shard.read_text().splitlines()):
            if row["test"]:
                label = row["label"]
                seen[label] = seen.get(label, 0) + 1
                right[label] = right.get(label, 0) + (model.classify(row["words"]) == label)
    for label in sorted(seen):
        print(f"{label:10} {right[label]} of {seen[label]}")
    accuracy = sum(right.values()) / sum(seen.values())
    print(f"accuracy {accuracy:.3f} on {sum(seen.values())} lines after epoch {model.epoch}")
    result = {"accuracy": accuracy, "lines": sum(seen.values()), "epoch": model.epoch}
    Path("work/evaluation.json").write_text(json.dumps(result) + "\n")
    if accuracy <= 1.5 / len(seen):
        raise SystemExit("hardly better than guessing: not fit to deploy")


main()
