"""One array task: turns data file number $SLURM_ARRAY_TASK_ID into counted words."""

import json
import os
import sys
from pathlib import Path

from text import TEST_EVERY, words


def main():
    files = sorted(Path("data").glob("*.txt"))
    task = int(os.environ["SLURM_ARRAY_TASK_ID"])
    if task >= len(files):
        sys.exit(f"task {task}: there are only {len(files)} files in data/")
    source = files[task]
    out = Path("work/shards")
    out.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, line in enumerate(source.read_text().splitlines()):
        counts = {}
        for word in words(line):
            counts[word] = counts.get(word, 0) + 1
        rows.append({"label": source.stem, "test": number % TEST_EVERY == 0, "words": counts})
    # Written beside and renamed, so that a task killed half-way leaves no half file.
    draft = out / f".{source.stem}.{task}"
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows))
    draft.rename(out / f"{source.stem}.jsonl")
    print(f"{source}: {len(rows)} lines, {sum(row['test'] for row in rows)} kept for the test")


main()
