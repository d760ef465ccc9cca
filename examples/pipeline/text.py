"""Words of a line and the split into train and test; shared by every step of the pipeline."""

import re

TEST_EVERY = 5  # every fifth line is kept for the evaluation
STOP = frozenset("a an and as at before by for from in is it its of off on or so that the them "
                 "then they to until was we when where with you".split())


def words(line):
    """Lower-case words without the commonest ones, cut to five letters (a crude stem)."""
    found = re.findall(r"[a-z]+", line.lower())
    return [word[:5] for word in found if word not in STOP]
