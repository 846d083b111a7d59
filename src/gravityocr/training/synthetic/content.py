"""What the synthetic crops say: running text, references, headings, lists, numbers and random strings."""

from collections.abc import Callable

import numpy as np

from gravityocr.training.synthetic.charset import ACCENTED, ASCII, GREEK, PUNCTUATION
from gravityocr.training.synthetic.corpus import Corpus, typeset

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_CAPITALS = _LETTERS.upper()
_DIGITS = "0123456789"
_SYMBOLS = "".join(c for c in ASCII if not c.isalnum() and c != " ")
_RARE = "".join(c for c in PUNCTUATION + ACCENTED + GREEK if c != "µ") + "≤≥≈→"
_ENDINGS = (",", ",", ",", ".", ".", ";", ":", "?", "!", ")", "...", "’s", "”")
_UNITS = (
    "%",
    "%",
    "kg",
    "mm",
    "cm",
    "km",
    "°C",
    "ms",
    "s",
    "Hz",
    "GHz",
    "MB",
    "μm",
    "μs",
    "mL",
    "eV",
    "K",
    "dB",
    "Å",
    "Ω",
)
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December", "Jan.", "Feb.", "Aug.", "Sept.", "Oct.", "Dec."),
)
_VENUES = (
    *("Ann. Math.", "J. Amer. Math. Soc.", "Phys. Rev. Lett.", "Nature", "Science", "Proc. IEEE"),
    *("arXiv preprint", "Comm. Math. Phys.", "In Proceedings of CVPR", "In ICML", "In NeurIPS"),
    *("Journal of Machine Learning Research", "IEEE Trans. Inf. Theory"),
    *("Cambridge University Press", "Springer-Verlag, Berlin", "J. Chem. Phys.", "The Lancet"),
    *("SIAM J. Comput.", "Adv. Math.", "Trans. Assoc. Comput. Linguist.", "Neural Computation"),
    *("Biometrika", "PhD thesis, MIT", "J. Fluid Mech.", "Astrophys. J."),
)
_ONSETS = (
    *("B", "Br", "C", "Ch", "D", "F", "G", "Gr", "H", "Hoch", "J", "K", "Kr", "L", "M", "Mc"),
    *("N", "O'", "P", "R", "S", "Sch", "St", "T", "Tr", "V", "W", "Wang", "Z", "Zh", "Li", "Ch"),
    *("É", "Ö", "Mü", "Å"),
)
_MIDDLES = (
    *("a", "an", "ar", "e", "el", "en", "er", "i", "in", "o", "on", "or", "u", "un", "ai", "ei"),
    *("ou", "ä", "ö", "ü", "é", "ov", "ill", "ann", "and", "ert"),
)
_CODAS = (
    *("", "berg", "man", "mann", "son", "sen", "ski", "sky", "ov", "er", "ez", "dez", "in"),
    *("ini", "ard", "t", "th", "k", "ng", "h", "l", "z", "ard", "ton", "ley", "well", "wood"),
)
_DOMAINS = ("com", "org", "edu", "net", "io", "de")
_STEMS = ("GPT", "H", "CO", "T", "v")
_BULLETS = ("-", "•", "–", "·", "*", "→")


def _one(rng: np.random.Generator, options: "tuple[str, ...] | list[str] | str") -> str:
    return options[int(rng.integers(len(options)))]


def _string(rng: np.random.Generator, alphabet: str, length: int) -> str:
    return "".join([alphabet[i] for i in rng.integers(len(alphabet), size=length)])


class ContentSource:
    """Compose text for crops; every method draws only from the generator that it is given."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._structured: tuple[Callable[[np.random.Generator, int], str], ...] = (
            self._reference,
            self._reference,
            self._heading,
            self._list_item,
            self._quantities,
            self._citing,
            self._identifiers,
            self._statistics,
        )

    def text(self, rng: np.random.Generator, chars: int, difficulty: float) -> str:
        """Return about `chars` characters or more; structured and random content grows with difficulty."""
        kind = rng.random()
        ease = 1.0 - 0.6 * (1.0 - difficulty)
        if kind < 0.13 * ease:
            return self._random_strings(rng, chars)
        if kind < 0.28 * ease:
            return self._noisy_words(rng, chars)
        if kind < 0.40 * ease:
            text = _one_of(rng, self._structured)(rng, chars)
            return text if rng.random() < 0.5 else _from_random_word(rng, text, chars, self._corpus)
        text = typeset(self._corpus.window(rng, chars), rng, difficulty)
        return _start_inside_word(rng, text) if rng.random() < 0.08 * difficulty else text

    def _random_strings(self, rng: np.random.Generator, chars: int) -> str:
        alphabets = (
            _LETTERS,
            _LETTERS + _CAPITALS,
            _CAPITALS + _DIGITS,
            _DIGITS,
            ASCII.strip(),
            ASCII.strip() + _RARE,
        )
        parts: list[str] = []
        total = 0
        while total < chars:
            alphabet = alphabets[int(rng.choice(6, p=(0.16, 0.16, 0.12, 0.12, 0.2, 0.24)))]
            part = _string(rng, alphabet, int(rng.integers(1, 9)))
            if rng.random() < 0.2:
                part = _string(rng, _RARE, int(rng.integers(1, 4)))
            parts.append(part)
            total += len(part) + 1
        return " ".join(parts)

    def _noisy_words(self, rng: np.random.Generator, chars: int) -> str:
        words = self._corpus.window(rng, chars).split(" ")
        rolls = rng.random(len(words))
        for i, roll in enumerate(rolls):
            if roll < 0.15:
                words[i] = words[i].upper()
            elif roll < 0.3:
                words[i] = words[i].capitalize()
            elif roll < 0.45:
                words[i] = words[i].rstrip(".,") + _one(rng, _ENDINGS)
            elif roll < 0.52:
                pair = _one(rng, ["()", "[]", "“”", '""', "‘’", "{}", "<>", "''", "||", "//", "**", "__", "``", "$$"])
                words[i] = pair[0] + words[i] + pair[1]
            elif roll < 0.58:
                words[i] = _one(rng, _SYMBOLS) + words[i]
            elif roll < 0.66:
                letters = list(words[i])
                letters[int(rng.integers(len(letters) or 1))] = _one(rng, _RARE)
                words[i] = "".join(letters)
            elif roll < 0.72:
                words[i] = words[i] + _one(rng, ["-", "–", "—", "/", "=", "+", "&", "·"]) + _string(rng, _LETTERS, 3)
        return " ".join(words)

    def _surname(self, rng: np.random.Generator) -> str:
        return _one(rng, _ONSETS) + _one(rng, _MIDDLES) + _one(rng, _CODAS)

    def _author(self, rng: np.random.Generator) -> str:
        initials = " ".join(f"{c}." for c in _string(rng, _CAPITALS, int(rng.integers(1, 3))))
        name = self._surname(rng)
        if rng.random() < 0.25:
            return f"{_one(rng, _ONSETS)}{_one(rng, _MIDDLES)} {name}"
        return f"{initials} {name}" if rng.random() < 0.6 else f"{name}, {initials}"

    def _title(self, rng: np.random.Generator, words: int) -> str:
        return " ".join(self._corpus.words(rng, words)).rstrip(".,;:")

    def _reference(self, rng: np.random.Generator, chars: int) -> str:
        parts: list[str] = []
        total = 0
        while total < chars:
            authors = [self._author(rng) for _ in range(int(rng.integers(1, 4)))]
            joined = (
                ", ".join(authors[:-1]) + (_one(rng, (" and ", ", and ", " & ")) if authors[1:] else "") + authors[-1]
            )
            label = _one(
                rng,
                (
                    f"[{rng.integers(1, 120)}] ",
                    f"{rng.integers(1, 90)}. ",
                    "",
                    f"[{joined[:2]}{rng.integers(10, 99)}] ",
                ),
            )
            first = int(rng.integers(1, 2200))
            pages = f"{first}{_one(rng, '-–')}{first + int(rng.integers(1, 60))}"
            year = int(rng.integers(1930, 2026))
            tail = _one(
                rng,
                (
                    f"{_one(rng, _VENUES)}, {rng.integers(1, 400)}:{pages}, {year}.",
                    f"{_one(rng, _VENUES)} {rng.integers(1, 90)}({rng.integers(1, 9)}), pp. {pages} ({year}).",
                    f"{_one(rng, _VENUES)}, vol. {rng.integers(1, 90)}, no. {rng.integers(1, 13)}, {year}.",
                    f"arXiv:{rng.integers(1000, 2512)}.{rng.integers(10000, 20000):05d}, {year}.",
                    f"doi:10.{rng.integers(1000, 9999)}/{_string(rng, _LETTERS + _DIGITS, 8)}.",
                    f"{_one(rng, _VENUES)}, {year}. {_string(rng, _DIGITS, 2)}, {_string(rng, _DIGITS, 3)}",
                ),
            )
            parts.append(f"{label}{joined}. {self._title(rng, int(rng.integers(3, 10)))}. {tail}")
            total += len(parts[-1]) + 1
        return " ".join(parts)

    def _citing(self, rng: np.random.Generator, chars: int) -> str:
        words = self._corpus.window(rng, chars).split(" ")
        for i in range(0, len(words), 4):
            year = int(rng.integers(1960, 2026))
            words[i] += _one(
                rng,
                (
                    f" [{rng.integers(1, 99)}]",
                    f" [{rng.integers(1, 40)}, {rng.integers(41, 99)}]",
                    f" ({self._surname(rng)} et al., {year})",
                    f" ({self._surname(rng)}, {year};",
                    f" (see Fig. {rng.integers(1, 12)})",
                    f" (Table {rng.integers(1, 12)}),",
                    f" Eq. ({rng.integers(1, 40)})",
                    f" Theorem {rng.integers(1, 9)}.{rng.integers(1, 20)}",
                ),
            )
        return " ".join(words)

    def _heading(self, rng: np.random.Generator, chars: int) -> str:
        title = self._title(rng, int(rng.integers(1, 9)))
        form = rng.random()
        if form < 0.35:
            title = title.upper()
        elif form < 0.65:
            title = title.title()
        major, minor = int(rng.integers(1, 12)), int(rng.integers(1, 20))
        roman = _one(rng, ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X"))
        label = _one(
            rng,
            (
                f"{major}.{minor}. ",
                f"{major}.{minor} ",
                f"{major} ",
                f"{roman}. ",
                f"{major}.{minor}.{rng.integers(1, 9)} ",
                f"Figure {major}: ",
                f"Table {major}. ",
                f"Chapter {major} ",
                "",
                "",
                f"Appendix {_one(rng, 'ABCDE')}. ",
            ),
        )
        return label + title

    def _list_item(self, rng: np.random.Generator, chars: int) -> str:
        number = int(rng.integers(1, 30))
        letter = _one(rng, _LETTERS[:10])
        numbered = (
            f"({letter})",
            f"{number})",
            f"{number}.",
            f"({number})",
            f"{letter})",
            f"[{number}]",
            "(ii)",
            "iv.",
        )
        label = _one(rng, _BULLETS) if rng.random() < 0.5 else _one(rng, numbered)
        return f"{label} {self._corpus.window(rng, chars)}"

    def _number(self, rng: np.random.Generator) -> str:
        value = float(10 ** rng.uniform(-2, 6))
        return _one(
            rng,
            (
                f"{value:.0f}",
                f"{value:,.0f}",
                f"{value:.1f}",
                f"{value:.2f}",
                f"−{value:.2f}",
                f"+{value:.1f}",
                f"−{value:.0f}",
                f"∼{value:.0f}",
                f"{value:,.2f}",
                f"{value:.1e}",
                f"0.{_string(rng, _DIGITS, 3)}",
                f"{value:.1f} ± {rng.uniform(0, 9):.1f}",
                f"{value:.0f}–{value * 1.5:.0f}",
                f"{value:.1f} × 10",
            ),
        )

    def _quantities(self, rng: np.random.Generator, chars: int) -> str:
        parts: list[str] = []
        total = 0
        while total < chars:
            year, day, hour = (
                int(rng.integers(1900, 2030)),
                int(rng.integers(1, 29)),
                int(rng.integers(0, 24)),
            )
            month = int(rng.integers(1, 13))
            part = _one(
                rng,
                (
                    f"{self._number(rng)} {_one(rng, _UNITS)}",
                    f"{self._number(rng)}{_one(rng, '%%°,;)')}",
                    f"{_one(rng, '$€£')}{self._number(rng)}",
                    f"{day} {_one(rng, _MONTHS)} {year}",
                    f"{_one(rng, _MONTHS)} {day}, {year}",
                    f"{year}-{month:02d}-{day:02d}",
                    f"{day}/{month}/{year}",
                    f"{hour:02d}:{rng.integers(0, 60):02d}",
                    f"({_string(rng, _DIGITS, 3)}) {_string(rng, _DIGITS, 3)}-{_string(rng, _DIGITS, 4)}",
                    " ".join(self._corpus.words(rng, 2)),
                    f"© {year}",
                    f"§{rng.integers(1, 90)}",
                ),
            )
            parts.append(part)
            total += len(part) + 1
        return " ".join(parts)

    def _statistics(self, rng: np.random.Generator, chars: int) -> str:
        words = self._corpus.window(rng, chars).split(" ")
        for i in range(1, len(words), 3):
            sign = _one(rng, "=<>≤≥≈=∼∼−−+")
            words[i] += " " + _one(
                rng,
                (
                    f"(p {sign} 0.{_string(rng, _DIGITS, 3)})",
                    f"{_one(rng, GREEK)} {sign} {self._number(rng)}",
                    f"{_one(rng, GREEK)}-{_one(rng, _LETTERS)}",
                    f"n {sign} {rng.integers(1, 999)}",
                    f"{_one(rng, _LETTERS)} → {_one(rng, GREEK + _LETTERS)}",
                    f"{_one(rng, _LETTERS + GREEK)} − {rng.integers(1, 9)}",
                    f"{self._number(rng)} {_one(rng, _UNITS)}",
                    f"R = {self._number(rng)},",
                    f"{rng.integers(2, 2000)} × {rng.integers(2, 2000)}",
                ),
            )
        return " ".join(words)

    def _identifiers(self, rng: np.random.Generator, chars: int) -> str:
        parts: list[str] = []
        total = 0
        while total < chars:
            words = [w for w in ("".join(filter(str.isalnum, word)) for word in self._corpus.words(rng, 3)) if w] or [
                "x"
            ]
            lower = [w.lower() for w in words]
            host = f"{_one(rng, ('www.', '', 'docs.'))}{lower[0]}.{_one(rng, _DOMAINS)}"
            part = _one(
                rng,
                (
                    lower[0] + "".join(w.capitalize() for w in lower[1:]),
                    "".join(w.capitalize() for w in lower),
                    "_".join(lower),
                    "-".join(words),
                    "_".join(lower).upper(),
                    f"{'.'.join(lower)}@{host}",
                    f"{_one(rng, ('http', 'https'))}://{host}/{'/'.join(lower)}",
                    f"{host}/~{lower[-1]}",
                    f"{words[0]}-{_string(rng, _CAPITALS + _DIGITS, 3)}",
                    f"{words[-1]}.{_one(rng, ('py', 'pdf', 'txt', 'tex', 'c', 'h'))}",
                    f"{lower[0]}({', '.join(lower[1:])})",
                    f"{lower[0]}[{rng.integers(0, 99)}] = {self._number(rng)};",
                    " ".join(words),
                    f"{_one(rng, _STEMS)}{rng.integers(1, 30)}{_one(rng, ('', 'O', 'a', '.0'))}",
                ),
            )
            parts.append(part)
            total += len(part) + 1
        return " ".join(parts)


def _one_of(
    rng: np.random.Generator, options: tuple[Callable[[np.random.Generator, int], str], ...]
) -> Callable[[np.random.Generator, int], str]:
    return options[int(rng.integers(len(options)))]


def _from_random_word(rng: np.random.Generator, text: str, chars: int, corpus: Corpus) -> str:
    """Start at a random word, and go on with running text where too little is left."""
    words = text.split(" ")
    rest = " ".join(words[int(rng.integers(len(words))) :])
    return rest if len(rest) >= chars else f"{rest} {corpus.window(rng, chars - len(rest))}"


def _start_inside_word(rng: np.random.Generator, text: str) -> str:
    """Drop the start of the first word, as after a hyphen at the end of the line before."""
    length = len(text.partition(" ")[0])
    return text[int(rng.integers(2, length - 2)) :] if length > 5 else text
