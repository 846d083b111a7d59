"""The visibility rule against an oracle: plain loops that say what the paper says, sentence by sentence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gravityocr.model.masks import CLEAN, CORRUPT_A, CORRUPT_B, PREFIX, RowTags, joint_mask, slot_mask


@dataclass(frozen=True)
class Token:
    """A token of a packed row; `sample` None is padding."""

    sample: int | None = None
    stream: int = PREFIX
    index: int = 0
    block: int = -1


def may_see(query: Token, key: Token) -> bool:
    """Tell what section 3 says of two different tokens."""
    if query.sample is None or key.sample is None or query.sample != key.sample:
        return False  # samples never attend to each other
    if query.stream == PREFIX:  # causal in itself
        return key.stream == PREFIX and key.index < query.index
    if key.stream == PREFIX:  # visible to all streams
        return True
    if query.stream == CLEAN:  # token-causal over prefix + clean
        return key.stream == CLEAN and key.index < query.index
    if key.stream == CLEAN:  # never the current or a later clean block
        return key.block < query.block
    if key.stream != query.stream:  # never the other corrupt stream
        return False
    return key.block == query.block  # its own corrupt block, in both directions


@st.composite
def packed_rows(draw: st.DrawFn) -> list[Token]:
    """Draw a row of one to three samples, of one to three streams each, with block offsets and padding."""
    row: list[Token] = []
    for sample in range(draw(st.integers(1, 3))):
        n_prefix, n_response = draw(st.integers(1, 4)), draw(st.integers(1, 7))
        block_size = draw(st.integers(1, 4))
        offset = draw(st.integers(0, block_size - 1))  # the first block may be short
        streams = draw(st.sampled_from([(CLEAN,), (CLEAN, CORRUPT_A), (CLEAN, CORRUPT_A, CORRUPT_B)]))
        row += [Token(sample, PREFIX, i) for i in range(n_prefix)]
        row += [Token(sample, stream, i, (i + offset) // block_size) for stream in streams for i in range(n_response)]
    row += [Token()] * draw(st.integers(0, 3))
    if draw(st.booleans()):  # who sees whom is a matter of tags, not of places
        row = draw(st.permutations(row))
    return row


def tags_of(rows: list[list[Token]]) -> RowTags:
    """Return the tags of rows of equal length."""
    return RowTags(
        segment=torch.tensor([[-1 if token.sample is None else token.sample for token in row] for row in rows]),
        stream=torch.tensor([[token.stream for token in row] for row in rows]),
        index=torch.tensor([[token.index for token in row] for row in rows]),
        block=torch.tensor([[token.block for token in row] for row in rows]),
    )


@given(st.lists(packed_rows(), min_size=1, max_size=3))
@settings(max_examples=200)
def test_joint_mask_is_what_the_paper_says(rows: list[list[Token]]) -> None:
    width = max(len(row) for row in rows)
    rows = [row + [Token()] * (width - len(row)) for row in rows]
    mask = joint_mask(tags_of(rows))
    assert mask.dtype == torch.bool and mask.shape == (len(rows), width, width)
    for row, seen in zip(rows, mask.tolist(), strict=True):
        for q, query in enumerate(row):
            for k, key in enumerate(row):
                expected = q == k or may_see(query, key)  # every token sees itself, so no softmax is empty
                assert seen[q][k] == expected, f"{query} {'sees' if seen[q][k] else 'does not see'} {key}"


@given(st.lists(st.lists(st.integers(0, 12), min_size=3, max_size=3), min_size=1, max_size=4), st.integers(1, 14))
def test_slot_mask_is_the_limit_and_nothing_else(limits: list[list[int]], n_slots: int) -> None:
    mask = slot_mask(torch.tensor(limits), n_slots)
    assert mask.shape == (len(limits), 1, 3, n_slots)  # the heads share it
    for b, rows in enumerate(limits):
        for i, limit in enumerate(rows):
            assert mask[b, 0, i].tolist() == [slot <= limit for slot in range(n_slots)]


def test_a_small_row_by_hand() -> None:
    """Two prefix tokens, three response tokens in blocks of two: the picture of the paper."""
    row = [Token(0, PREFIX, 0), Token(0, PREFIX, 1)]
    row += [Token(0, stream, i, i // 2) for stream in (CLEAN, CORRUPT_A, CORRUPT_B) for i in range(3)]
    picture = [
        #  prefix  clean    a        b
        "1 0   0 0 0   0 0 0   0 0 0",
        "1 1   0 0 0   0 0 0   0 0 0",
        "1 1   1 0 0   0 0 0   0 0 0",
        "1 1   1 1 0   0 0 0   0 0 0",
        "1 1   1 1 1   0 0 0   0 0 0",
        "1 1   0 0 0   1 1 0   0 0 0",
        "1 1   0 0 0   1 1 0   0 0 0",
        "1 1   1 1 0   0 0 1   0 0 0",
        "1 1   0 0 0   0 0 0   1 1 0",
        "1 1   0 0 0   0 0 0   1 1 0",
        "1 1   1 1 0   0 0 0   0 0 1",
    ]
    expected = [[int(cell) for cell in line.split()] for line in picture]
    assert joint_mask(tags_of([row]))[0].int().tolist() == expected
