"""Golden round traces, written out, and the page that shows them."""

from __future__ import annotations

from html.parser import HTMLParser

from tests.scripted import ScriptedSlots, TapeScript, make_request

from gravityocr.decoding import Decoded, RoundTrace, Speculation, decode_autoregressive, decode_speculative, trace_html

# Index of the response token:   0  1  2  3  4  5  6  7  8  9
LONG = TapeScript(prefix=[2, 3], truth=[4, 5, 6, 7, 8, 9, 2, 3, 4, 1], drafts=[0, 0, 6, 7, 3, 3, 0, 0, 4, 1])
SHORT = TapeScript(prefix=[2], truth=[5, 6, 0], drafts=[0, 0, 0, 7])


def run() -> list[Decoded]:
    """Decode both tapes together with B = 3."""
    scripts = [LONG, SHORT]
    return decode_speculative(
        ScriptedSlots(scripts), make_request(scripts, [20, 20], 3), how=Speculation(3, trace=True)
    )


def test_golden_rounds() -> None:
    long, short = run()
    assert long.ids == [4, 5, 6, 7, 8, 9, 2, 3, 4, 1]
    assert long.trace == [
        # Row 0 says 5; drafts of indices 2, 3, 4 against 6, 7, 8: two agree, the verifier corrects to 8.
        RoundTrace(x0=4, exact=[5], drafts=[6, 7, 3], predictions=[6, 7, 8, 2], n_accepted=2, committed=[5, 6, 7, 8]),
        # Indices 6, 7, 8 against 2, 3, 4: the first differs, and the drafts behind it do not matter.
        # The first says stop, so that the others are not even verified.
        RoundTrace(x0=8, exact=[9], drafts=[0], predictions=[2, 2], n_accepted=0, committed=[9, 2]),
        # Indices 8, 9: both agree with AR, which goes on behind the stop token; the round ends at it.
        RoundTrace(x0=2, exact=[3], drafts=[4, 1], predictions=[4, 1, 2], n_accepted=2, committed=[3, 4, 1]),
    ]
    assert (long.n_rounds, long.n_forwards, long.n_accepted, long.finish) == (3, 6, 4, "stop")
    assert long.tpf == 1.5
    assert short.ids == [5, 6, 0]
    assert short.trace == [
        # The tape ends at the stop token; behind it the script says 2.
        RoundTrace(x0=5, exact=[6], drafts=[0], predictions=[0, 2], n_accepted=1, committed=[6, 0]),
    ]
    assert (short.n_rounds, short.n_forwards, short.n_accepted) == (1, 2, 1)


def test_trace_is_empty_unless_asked_for() -> None:
    scripts = [LONG]
    (one,) = decode_speculative(ScriptedSlots(scripts), make_request(scripts, [20], 3))
    assert one.trace == [] and one.n_rounds == 3


def test_states_of_the_drafts() -> None:
    states = [one.draft_states() for one in run()[0].trace]
    assert states == [
        ["accepted", "accepted", "rejected"],
        ["rejected"],
        ["accepted", "accepted"],
    ]
    assert [one.is_cut for one in run()[0].trace] == [False, False, True]


class _Spans(HTMLParser):
    """Collect (class, text) of every span and the names of all tags."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.spans: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {"src", "href"} & {name for name, _ in attrs}, "the page must be self-contained"
        if tag == "span":
            self.spans.append((dict(attrs)["class"] or "", ""))

    def handle_data(self, data: str) -> None:
        if self.spans and self.get_starttag_text() is not None and self.lasttag == "span" and data.strip():
            state, text = self.spans[-1]
            self.spans[-1] = (state, text or data)


def test_page_marks_each_token_of_each_round() -> None:
    page = _Spans()
    page.feed(trace_html(run()[:1], lambda token: f"w{token}"))
    rounds = [(state.removeprefix("t "), text) for state, text in page.spans if text.startswith("w")]
    assert rounds == [
        *[("x0", "w4"), ("a0", "w5"), ("accepted", "w6"), ("accepted", "w7"), ("rejected", "w3")],
        ("correction", "w8"),
        *[("x0", "w8"), ("a0", "w9"), ("rejected", "w0")],
        ("correction", "w2"),
        *[("x0", "w2"), ("a0", "w3"), ("accepted", "w4"), ("accepted", "w1")],
        ("cut", "w2"),
        *[("t", f"w{token}") for token in LONG.truth],
    ]


def test_page_escapes_everything_and_shows_white_space() -> None:
    text = trace_html(run(), lambda token: "<script>alert('&\"')</script>\n")
    page = _Spans()
    page.feed(text)
    assert "script" not in page.tags and "<script" not in text
    assert "&lt;script&gt;alert(&#x27;&amp;&quot;&#x27;)&lt;/script&gt;\u21b5</span>" in text


def test_page_of_a_decode_without_rounds() -> None:
    scripts = [SHORT]
    (one,) = decode_autoregressive(ScriptedSlots(scripts), make_request(scripts, [1], 3))
    assert "0 rounds, 0 forwards, 0 drafts accepted, TPF none, ended by length." in trace_html([one], str)
