"""Loads training data over and over, from small files or, with `--packed`, from one large file.

LOADERS processes load a batch; then a step of training takes STEP_MS, in which a GPU would compute.
Nothing read is kept: data sets are larger than memory, so that each epoch reads from the disk again. Ends after LOAD_S seconds, or once the file STOP is there.
"""

import mmap
import os
import sys
import time
from multiprocessing import Pool
from pathlib import Path

DATA = os.environ.get("DATA", "data")
LOADERS = int(os.environ.get("LOADERS", "4"))
BATCH = int(os.environ.get("BATCH", "256"))
STEP_MS = float(os.environ.get("STEP_MS", "5"))
LOAD_S = float(os.environ.get("LOAD_S", "3600"))
STOP = Path(os.environ.get("STOP", "stop"))


def lines(sample):
    return sample.count(b"\n")


# Pages of its own, which reads past the cache need.
BUFFER = mmap.mmap(-1, 1 << 20)


def opened(path):
    """Opened past the cache; where the filesystem has no such reads, the cache is told to forget."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        return file


def one(path):
    """One small file: to open, to wait for, to read, to close."""
    file = opened(path)
    try:
        size = os.readv(file, [BUFFER])
    finally:
        os.close(file)
    return lines(BUFFER[:size])


def unpacked():
    """Batches of small files, epoch after epoch."""
    files = sorted(str(path) for path in Path(DATA).glob("*.txt"))
    with Pool(LOADERS) as pool:
        while files:
            for begin in range(0, len(files), BATCH):
                batch = files[begin : begin + BATCH]
                yield pool.map(one, batch, chunksize=-(-len(batch) // LOADERS))


def packed():
    """The same samples, one behind the other in one file: a batch is one read, and the kernel
    fetches the next one while the step runs."""
    sizes = [int(line) for line in Path(f"{DATA}.sizes").read_text().split()]
    batches = [sizes[begin : begin + BATCH] for begin in range(0, len(sizes), BATCH)]
    with open(f"{DATA}.pack", "rb", buffering=0) as file:
        while batches:
            at = 0
            for batch, after in zip(batches, batches[1:] + batches[:1]):
                view = memoryview(os.pread(file.fileno(), sum(batch), at))
                os.posix_fadvise(file.fileno(), at, sum(batch), os.POSIX_FADV_DONTNEED)
                at = 0 if after is batches[0] else at + sum(batch)
                os.posix_fadvise(file.fileno(), at, sum(after), os.POSIX_FADV_WILLNEED)
                counts = []
                for size in batch:
                    counts.append(lines(bytes(view[:size])))
                    view = view[size:]
                yield counts


def main():
    load = packed if "--packed" in sys.argv[1:] else unpacked
    begin, samples = time.monotonic(), 0
    for batch in load():
        samples += len(batch)
        # The step of training that the batch is for.
        time.sleep(STEP_MS / 1000)
        seconds = time.monotonic() - begin
        if seconds > LOAD_S or STOP.exists():
            print(f"{samples} samples, {samples / seconds:.0f} a second")
            return
    sys.exit(f"there is nothing in {DATA}: run make.py first")


if __name__ == "__main__":
    main()
