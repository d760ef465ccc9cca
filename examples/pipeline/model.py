"""A trained model as the checkpoint has it; used to evaluate and to serve."""

import json
import re
from pathlib import Path


class Model:
    """Weights of a softmax regression over words."""

    def __init__(self, saved):
        self.epoch = saved["epoch"]
        self.labels = saved["labels"]
        self.width = len(saved["vocabulary"])
        self.index = {word: i for i, word in enumerate(saved["vocabulary"])}
        self.weights = saved["weights"]

    @classmethod
    def newest(cls, folder="work/checkpoints"):
        files = list(Path(folder).glob("epoch-*.json"))
        if not files:
            raise SystemExit(f"no checkpoint in {folder}: run train first")
        newest = max(files, key=lambda file: int(re.sub(r"\D", "", file.stem)))
        return cls(json.loads(newest.read_text()))

    def classify(self, counts):
        """The likeliest label of counted words; unknown words say nothing."""
        features = [(self.index[w], n) for w, n in counts.items() if w in self.index]
        scores = [sum(self.weights[k * self.width + i] * n for i, n in features)
                  for k in range(len(self.labels))]
        return self.labels[scores.index(max(scores))]
