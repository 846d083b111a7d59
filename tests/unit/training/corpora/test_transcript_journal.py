"""The journal: what was appended comes back, wherever a run was killed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gravityocr.errors import InputError
from gravityocr.training.corpora.chat_servers import Transcript
from gravityocr.training.corpora.transcript_journal import TranscriptJournal

IDS = [f"s/{number}" for number in range(6)]
SETTINGS = {"model": "m", "max_tokens": 9}
TRANSCRIPTS = st.builds(
    Transcript, st.sampled_from(["ok", "truncated", "empty", "failed"]), st.text(max_size=20), st.text(max_size=5)
)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), TRANSCRIPTS), max_size=12), st.floats(0, 1))
def test_a_journal_cut_anywhere_holds_its_whole_lines(rows: list[tuple[int, Transcript]], share: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.jsonl"
        with TranscriptJournal(file, IDS, SETTINGS) as journal:
            header = file.stat().st_size
            for number, transcript in rows:
                journal.append(number, transcript)
        whole = file.read_bytes()
        cut = header + round(share * (len(whole) - header))
        file.write_bytes(whole[:cut])
        expected = dict(rows[: whole[header:cut].count(b"\n")])
        with TranscriptJournal(file, IDS, SETTINGS) as journal:
            journal.append(3, Transcript("ok", "later"))
        expected[3] = Transcript("ok", "later")
        with TranscriptJournal(file, IDS, SETTINGS) as journal:
            for number in range(len(IDS)):
                known = expected.get(number)
                assert journal.needs(number) == (known is None or known.status == "failed")
                assert journal.text(number) == (known.text if known and known.status == "ok" else None)
            assert journal.counts().total() == len(expected)
            left = {IDS[n]: one.status for n, one in expected.items() if one.status != "ok"}
            assert {row["region_id"]: row["status"] for row in journal.left_out()} == left


def test_lines_that_mean_nothing_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    with TranscriptJournal(file, IDS, SETTINGS) as journal:
        journal.append(1, Transcript("ok", "one"))
    odd = [
        "nonsense", "[]", '{"number": true}', '{"number": 99, "region_id": "s/0", "status": "ok", "text": "a"}',
        '{"number": 0, "region_id": "s/1", "status": "ok", "text": "a"}', "[" * 5000, "\x00",
        '{"number": 0, "region_id": "s/0", "status": "fine", "text": "a"}',
        '{"number": 0, "region_id": "s/0", "status": "ok", "text": null}', "",
    ]  # fmt: skip
    with file.open("a", encoding="utf-8") as stream:
        stream.write("".join(f"{line}\n" for line in odd))
    with TranscriptJournal(file, IDS, SETTINGS) as journal:
        assert journal.counts() == {"ok": 1} and journal.text(1) == "one"


@pytest.mark.parametrize(
    ("ids", "changes", "told"),
    [
        (IDS[:-1], {}, "another shard"), ([*IDS[:-1], "x"], {}, "another shard"),
        (IDS, {"model": "n"}, "another model \\('m', now 'n'\\)"), (IDS, {"max_tokens": 8}, "another max_tokens"),
    ],
)  # fmt: skip
def test_a_journal_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path, ids, changes, told) -> None:
    file = tmp_path / "a.jsonl"
    with TranscriptJournal(file, IDS, SETTINGS) as journal:
        journal.append(1, Transcript("ok", "one"))
    before = file.read_bytes()
    with pytest.raises(InputError, match=told):
        TranscriptJournal(file, ids, SETTINGS | changes)
    assert file.read_bytes() == before
    file.write_text(json.dumps({"a": 1}) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="no journal"):
        TranscriptJournal(file, IDS, SETTINGS)
