"""What the cells of generated tables say: columns of numbers with their heads, labels, words and sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gravityocr.training.synthetic.charset import ACCENTED, GREEK, NEVER_DRAWN, PUNCTUATION, RELATIONS
from gravityocr.training.synthetic.content import ContentSource
from gravityocr.training.synthetic.corpus import Corpus

Draw = Callable[[np.random.Generator], str]


def _options(joined: str) -> tuple[str, ...]:
    return tuple(joined.split("|"))


_HEADS = _options(
    "Variable|Variables|Characteristic|Characteristics|Parameter|Factor|Outcome|Measure|Item|Category|Group|Method|"
    "Model|Study|Reference|Author|Year|Country|Region|Sample|Species|Gene|Primer|Sequence|Dose|Time|Age (years)|Sex|"
    "BMI (kg/m^{2})|Total|Mean|Median|Range|SD|SE|Min|Max|Frequency|Percentage|No.|N|~{n}|Rate|Score|Value|Type|"
    "Description|Comments|Effect|Estimate|Coefficient|Predictor|Domain|Question|Response|Treatment|Stage|Grade|"
    "Source|df|~{F}|~{t}|~{R}^{2}|~{z}|~{β}|Accuracy|Sensitivity|Specificity|PPV|NPV|AUC|Precision|Recall|F_{1}|"
    "Weight (kg)|Height (cm)|Temperature (°C)|Concentration (μg/ml)|Length (mm)|Area (km^{2})|Volume (mL)|"
    "Velocity (m s^{−1})|Density (g cm^{−3})|Energy (eV)|Wavelength (nm)|Signal (dB)|Price|Amount|Cost (USD)|Quantity"
)
_GROUPS = _options(
    "Men|Women|Male|Female|All|Total|Control|Controls|Cases|Placebo|Intervention|Treatment|Baseline|Follow-up|"
    "Pre-test|Post-test|Group A|Group B|Group 1|Group 2|Model 1|Model 2|Model 3|Univariate|Multivariate|"
    "Univariate analysis|Multivariate analysis|Unadjusted|Adjusted|Training set|Validation set|Test set|Urban|Rural|"
    "Year 1|Year 2|Day 7|Day 28|Week 12|6-Month|12-Month|18-Month|Low dose|High dose|Wild type|Mutant|Left|Right|"
    "Hospital|Community|Cohort I|Cohort II|Experiment 1|Experiment 2|Method A|Method B|2019|2020|2021|Q1|Q2|Q3|Q4"
)
_LABELS = _options(
    "Age (years)|Age, mean (SD)|Gender|Sex|Male|Female|Ethnicity|Smoking status|Never|Former|Current|Diabetes mellitus|"
    "Hypertension|BMI (kg/m^{2})|Systolic BP (mmHg)|Diastolic BP (mmHg)|Heart rate (bpm)|Total cholesterol (mg/dl)|"
    "LDL cholesterol (mmol/L)|HDL-C|Triglycerides|Glucose (mg/dL)|HbA_{1c} (%)|Creatinine (μmol/L)|eGFR|CRP (mg/l)|"
    "Hemoglobin (g/dl)|WBC (×10^{9}/L)|Platelets|Albumin|Tumor size (cm)|Lymph node metastasis|Positive|Negative|"
    "Stage I–II|Stage III–IV|Grade 1|Grade 2|Grade 3|T1/T2|T3/T4|Well differentiated|Poor|Moderate|Severe|Mild|"
    "Chemotherapy|Radiotherapy|Surgery|No|Yes|Unknown|Missing|Other|None|Education|Primary school|High school|"
    "University|Income|Low|Middle|High|Married|Single|Employed|Unemployed|Urban|Rural|Total|Overall|Mean|"
    "Alcohol consumption|Physical activity|Family history|Length of stay (d)|Mortality|Recurrence|Complications|"
    "Fever|Headache|Nausea|Vomiting|Diarrhea|Cough|Fatigue|Abdominal pain|Chest pain|Dyspnea|≤60|>60|<65|≥65|"
    "18–29|30–44|45–59|≥60|0–5|6–10|>10|Intercept|Constant|Observations|Adjusted ~{R}^{2}|Log likelihood|IL-6|TNF-α|"
    "IFN-γ|~{E. coli}|~{S. aureus}|~{P. aeruginosa}|CD4^{+} T cells|CD8^{+}|Ca^{2+}|Na^{+}|SpO_{2}|pH|CO_{2} (ppm)|"
    "NO_{3}^{−}|H_{2}O|Sand (%)|Clay (%)|Organic matter|Rainfall (mm)|Revenue|Net income|Cost of sales|Gross profit|"
    "Operating expenses|Depreciation|Cash and equivalents|Total assets|Total liabilities|Interest expense|Taxes"
)
_WORDS = _options(
    "yes|no|Yes|No|n.s.|NS|n/a|N/A|NA|high|low|medium|present|absent|positive|negative|male|female|none|good|poor|"
    "fair|mild|severe|A|B|C|AA|AB|GG|AG|CT|TT|+|++|+++|−|–|-|x|•|Ref.|1 (ref)|Reference|unknown|left|right|*|**|***"
)
_UNITS = _options(
    "%|mg/dl|mg/L|mmol/L|μm|μM|nm|mm|cm|kg|g/L|ng/mL|U/ml|s|ms|min|h|days|years|°C|K|Hz|kHz|dB|kPa|mV|m^{2}|ppm"
)
_CITIES = _options(
    "Berlin|Paris|London|Madrid|Rome|Vienna|Zürich|Tokyo|Osaka|Beijing|Delhi|Boston|Chicago|Toronto|Sydney|Oslo|"
    "Nairobi|Lagos|Cairo|Lima|São Paulo|Bogotá|Warsaw|Prague|Germany|France|USA|UK|Japan|China|India|Brazil|Canada"
)
_MARKS = ("*", "**", "***", "^{a}", "^{b}", "^{c}", "^{*}", "^{1}", "^{2}", "^{a,b}", "#", "§", "^{+}", "^{#}")
_RARE = tuple(c for c in ACCENTED + ACCENTED + GREEK + PUNCTUATION + RELATIONS if c not in NEVER_DRAWN)
_NO_BRACES = str.maketrans("", "", "{}")  # they would read as marks
_PREFIXES = (
    "α-",
    "β-",
    "γ-",
    "Δ",
    "λ ",
    "μ-",
    "σ ",
    "ω-3 ",
    "π ",
    "≥ 2 ",
    "≤ 5 ",
    "≈ ",
    "± ",
    "• ",
    "(a) ",
    "1. ",
    "§ 4 ",
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    """Return one of the options."""
    return options[int(rng.integers(len(options)))]


def chance(rng: np.random.Generator, share: float) -> bool:
    """Return True for a share of the calls."""
    return bool(rng.random() < share)


class Values:
    """Draw labels, phrases and columns; every method draws only from the generator that it is given."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._content = ContentSource(corpus)

    def words(self, rng: np.random.Generator, least: int, most: int) -> str:
        """Return running words of the corpus, often with a capital at the start."""
        words = self._corpus.words(rng, int(rng.integers(least, most + 1)))
        text = " ".join(words).translate(_NO_BRACES).strip(".,;:–—- ") or "data"
        if chance(rng, 0.7) and text[0].isascii():
            text = text[0].upper() + text[1:]
        if chance(rng, 0.06):
            place = int(rng.integers(len(text)))
            text = text[:place] + pick(rng, _RARE) + text[place + 1 :]
        return text

    def sentence(self, rng: np.random.Generator) -> str:
        """Return a longer piece of text, sometimes with a bullet, a citation or a number in front."""
        if chance(rng, 0.12):
            return self._content.text(rng, int(rng.integers(15, 70)), 1.0).translate(_NO_BRACES)[:90]
        text = self.words(rng, 4, 16)
        roll = rng.random()
        if roll < 0.04:
            text = f"• {text}\n• {self.words(rng, 1, 6)}"
        elif roll < 0.08:
            text = f"• {text}"
        elif roll < 0.13:
            text = f"{rng.integers(1, 20)}. {text}"
        elif roll < 0.20:
            text = f"{text} [{rng.integers(1, 99)}]"
        return text + ("." if chance(rng, 0.15) else "")

    def label(self, rng: np.random.Generator) -> str:
        """Return a row label."""
        if chance(rng, 0.4):
            return pick(rng, _LABELS)
        text = self.words(rng, 1, 5)
        roll = rng.random()
        if roll < 0.1:
            return f"{text} ({pick(rng, _UNITS)})"
        if roll < 0.16:
            return f"{text}, ~{{n}} (%)" if chance(rng, 0.5) else f"{text} (n = {rng.integers(5, 900)})"
        if roll < 0.23:
            return f"{pick(rng, _PREFIXES)}{text}"
        return f"{text}{pick(rng, _MARKS)}" if roll < 0.28 else text

    def head(self, rng: np.random.Generator) -> str:
        """Return a column head, sometimes on two lines."""
        if chance(rng, 0.55):
            text = pick(rng, _HEADS)
            return text.replace(" (", "\n(") if chance(rng, 0.15) else text
        text = self.words(rng, 1, 3)
        return f"{text} ({pick(rng, _UNITS)})" if chance(rng, 0.15) else text

    def group(self, rng: np.random.Generator) -> str:
        """Return the head of a group of columns."""
        text = pick(rng, _GROUPS) if chance(rng, 0.65) else self.words(rng, 1, 3)
        roll = rng.random()
        if roll < 0.25:
            letter = pick(rng, ("n", "N", "~{n}", "~{N}"))
            sign = pick(rng, (" = ", " = ", "="))
            gap = pick(rng, (" ", " ", "\n"))
            return f"{text}{gap}({letter}{sign}{rng.integers(5, 2000)})"
        return f"{text} ({pick(rng, _UNITS)})" if roll < 0.3 else text

    def number_column(self, rng: np.random.Generator) -> tuple[str, Draw]:
        """Return the head and the values of a column of numbers."""
        digits = int(rng.choice(5, p=(0.1, 0.35, 0.35, 0.17, 0.03)))
        top = float(10 ** rng.uniform(-0.5, 4.0))
        minus = pick(rng, ("−", "−", "-", "–"))
        share = float(rng.choice((0.0, 0.0, 0.3)))

        def number(rng: np.random.Generator, scale: float = 1.0) -> str:
            value = f"{top * scale * rng.random():.{digits}f}"
            return minus + value if chance(rng, share) else value

        dash = pick(rng, ("–", "–", "-", ", ", " to ", " – "))
        left, right = ("(", ")") if chance(rng, 0.67) else ("[", "]")
        makers: tuple[tuple[str, Draw], ...] = (
            ("", number),
            ("", number),
            ("~{n}", lambda rng: f"{rng.integers(0, max(2, int(top)))}"),
            ("N", lambda rng: f"{int(10 ** rng.uniform(0.0, 6.5)):,}"),
            (pick(rng, ("n (%)", "~{n} (%)", "No. (%)")), _count_and_share(rng)),
            ("%", lambda rng: f"{100 * rng.random():.{min(digits, 2)}f}"),
            ("", lambda rng: f"{100 * rng.random():.{min(digits, 2)}f}%"),
            ("Mean ± SD", lambda rng: f"{number(rng)} ± {number(rng, 0.2).lstrip(minus)}"),
            ("Mean (SD)", lambda rng: f"{number(rng)} ({number(rng, 0.2).lstrip(minus)})"),
            (f"OR {left}95% CI{right}", _ratio_with_range(rng, left, right, dash)),
            (pick(rng, ("95% CI", "95 % CI", "CI")), _range(rng, "", "", dash)),
            ("Range", _range(rng, left, right, dash)),
            (pick(rng, ("~{p}", "~{P}", "P value", "p-value", "~{p} value", "P")), _p_value(rng)),
            ("", lambda rng: number(rng) + (pick(rng, _MARKS) if chance(rng, 0.35) else "")),
            ("Price", _money(rng)),
            ("", _scientific),
        )
        head, draw = makers[int(rng.integers(len(makers)))]
        return head or self.head(rng), draw

    def word_column(self, rng: np.random.Generator) -> tuple[str, Draw]:
        """Return the head and the values of a column of short words, codes, names or dates."""
        few = [pick(rng, _WORDS) for _ in range(int(rng.integers(2, 5)))]
        form = int(rng.integers(1, 7))
        makers: tuple[tuple[str, Draw], ...] = (
            ("", lambda rng: pick(rng, few)),
            ("", lambda rng: pick(rng, few)),
            ("", lambda rng: pick(rng, _WORDS)),
            ("", lambda rng: self.words(rng, 1, 2)),
            ("", lambda rng: self.words(rng, 1, 3)),
            ("Year", lambda rng: f"{rng.integers(1950, 2027)}"),
            ("Date", lambda rng: date(rng, form)),
            ("Time", lambda rng: f"{rng.integers(0, 24):02d}:{rng.integers(0, 60):02d}"),
            ("Ref.", lambda rng: f"[{rng.integers(1, 150)}]"),
            ("Country", lambda rng: pick(rng, _CITIES)),
            ("ID", lambda rng: code(rng)),
            ("", lambda rng: f"{rng.integers(0, 12)}/{rng.integers(12, 60)}"),
            ("Study", lambda rng: f"{self.words(rng, 1, 1)} et al. [{rng.integers(1, 90)}]"),
        )
        head, draw = makers[int(rng.integers(len(makers)))]
        return head or self.head(rng), draw


def _count_and_share(rng: np.random.Generator) -> Draw:
    digits, sign = int(rng.integers(0, 3)), pick(rng, ("", "", "%", " %"))
    top = float(10 ** rng.uniform(1.0, 4.5))
    return lambda rng: f"{int(top * rng.random())} ({100 * rng.random():.{digits}f}{sign})"


def _ratio_with_range(rng: np.random.Generator, left: str, right: str, dash: str) -> Draw:
    digits = int(rng.integers(1, 4))

    def draw(rng: np.random.Generator) -> str:
        middle = float(10 ** rng.uniform(-0.8, 0.9))
        low, high = middle * rng.uniform(0.3, 0.95), middle * rng.uniform(1.1, 3.5)
        return f"{middle:.{digits}f} {left}{low:.{digits}f}{dash}{high:.{digits}f}{right}"

    return draw


def _range(rng: np.random.Generator, left: str, right: str, dash: str) -> Draw:
    digits, size = int(rng.integers(0, 4)), float(rng.uniform(-0.8, 2.5))

    def draw(rng: np.random.Generator) -> str:
        low = float(10**size * rng.random())
        return f"{left}{low:.{digits}f}{dash}{low + 10**size * rng.random():.{digits}f}{right}"

    return draw


def _p_value(rng: np.random.Generator) -> Draw:
    digits, space = int(rng.integers(2, 5)), pick(rng, ("", " "))
    zero = pick(rng, ("0", "0", "0", ""))
    mark = pick(rng, ("", "", "*", "^{a}"))

    def draw(rng: np.random.Generator) -> str:
        if chance(rng, 0.3):
            return f"<{space}{zero}.{'0' * (digits - 1)}1{mark}"
        if chance(rng, 0.06):
            return pick(rng, ("NS", "n.s.", "–", "1.00"))
        value = f"{rng.random() ** 3:.{digits}f}"
        return (zero + value[1:] if value.startswith("0") else value) + (mark if chance(rng, 0.3) else "")

    return draw


def _money(rng: np.random.Generator) -> Draw:
    sign, cents, size = pick(rng, ("$", "€", "£", "", "")), int(rng.choice((0, 2, 2))), float(rng.uniform(1.5, 6.0))

    def draw(rng: np.random.Generator) -> str:
        value = f"{10**size * rng.random():,.{cents}f}"
        return f"({value})" if chance(rng, 0.08) else f"{sign}{value}"

    return draw


def _scientific(rng: np.random.Generator) -> str:
    digits, power = int(rng.integers(0, 3)), int(rng.integers(1, 12))
    return f"{rng.uniform(1, 10):.{digits}f} × 10^{{{'−' if chance(rng, 0.6) else ''}{power}}}"


def date(rng: np.random.Generator, form: int) -> str:
    """Return a date in one of six forms."""
    year, month, day = int(rng.integers(1980, 2028)), int(rng.integers(1, 13)), int(rng.integers(1, 29))
    forms = (
        f"{year}-{month:02d}-{day:02d}",
        f"{day}.{month}.{year}",
        f"{month}/{day}/{year % 100:02d}",
        f"{day} {_MONTHS[month - 1]} {year}",
        f"{_MONTHS[month - 1]} {day}, {year}",
        f"{_MONTHS[month - 1]} {year}",
    )
    return forms[form - 1]


def code(rng: np.random.Generator) -> str:
    """Return an identifier: of an article, a gene variant, a primer."""
    number, letter = int(rng.integers(1, 99999)), pick(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    roll = rng.random()
    if roll < 0.3:
        return f"{letter}{pick(rng, 'ABCDXYZ')}-{number}"
    if roll < 0.5:
        return f"rs{number}"
    if roll < 0.7:
        return "".join(pick(rng, "ACGT") for _ in range(int(rng.integers(8, 22))))
    return f"{letter}{number % 1000:03d}" if roll < 0.85 else f"{letter}{number % 100}{pick(rng, 'abc')}"
