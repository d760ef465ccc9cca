"""Makes training data: thousands of small files in data/, and the same packed in data.pack, with
the size of each in data.sizes."""

import os
import random
from pathlib import Path

FILES = int(os.environ.get("FILES", "4000"))
LINES = 60
WORDS = "anchor harbour sail rudder keel flour oven yeast crust dough goal match referee".split()


def main():
    data = Path(os.environ.get("DATA", "data"))
    data.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    sentences = [" ".join(draw.choices(WORDS, k=100)) + "\n" for _ in range(500)]
    sizes = []
    with open(f"{data}.pack", "wb") as pack:
        for number in range(FILES):
            sample = "".join(draw.choices(sentences, k=LINES)).encode()
            (data / f"{number:05}.txt").write_bytes(sample)
            sizes.append(pack.write(sample))
    Path(f"{data}.sizes").write_text("".join(f"{size}\n" for size in sizes))
    # Only what is on the disk can be read from it.
    os.sync()
    mean = sum(sizes) // max(len(sizes), 1)
    print(f"{len(sizes)} files of {mean} bytes in {data}, and packed in {data}.pack")


main()
