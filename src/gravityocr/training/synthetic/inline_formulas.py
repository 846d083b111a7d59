"""Short formulas as they stand within a line of prose: quantities, sets, statistics, units, chemistry."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gravityocr.training.synthetic.formula_names import ordered

_LATIN = list("abcdefghijklmnpqrstuvwxyz")
_CAPITALS = list("ABCDEFGHIJKLMNPQRSTUVWXYZ")
_GREEK = ordered(
    r"\alpha \beta \gamma \delta \epsilon \varepsilon \zeta \eta \theta \kappa \lambda \mu \nu \xi \pi \rho \sigma "
    r"\tau \phi \varphi \chi \psi \omega \Gamma \Delta \Theta \Lambda \Sigma \Phi \Psi \Omega"
)
_UNITS = (
    "m", "cm", "mm", "km", "nm", r"\mu m", "kg", "g", "mg", r"\mu g", "s", "ms", "K", "J", "eV", "keV", "MeV", "GeV",
    "Hz", "kHz", "MHz", "GHz", "Pa", "kPa", "mol", "L", "mL", "V", "mV", "W", "kW", "T", "A", "N", "dB", "mmHg", "ppm",
)  # fmt: skip
_CHEMISTRY = (
    r"\mathrm{H_2O}", r"\mathrm{CO_2}", r"\mathrm{O_2}", r"\mathrm{N_2}", r"\mathrm{SiO_2}", r"\mathrm{TiO_2}",
    r"\mathrm{Al_2O_3}", r"\mathrm{Fe_2O_3}", r"\mathrm{CaCO_3}", r"\mathrm{H_2SO_4}", r"\mathrm{NaCl}",
    r"\mathrm{Na^+}", r"\mathrm{Ca^{2+}}", r"\mathrm{K^+}", r"\mathrm{Cl^-}", r"\mathrm{SO_4^{2-}}",
    r"\mathrm{NH_4^+}", r"\mathrm{NO_3^-}", r"\mathrm{CH_4}", r"\mathrm{NO_x}", r"\mathrm{PM_{2.5}}",
    r"{}^{14}\mathrm{C}", r"\mathrm{H}^+", r"\mathrm{OH}^-", r"\mathrm{C_6H_{12}O_6}", r"\mathrm{LiFePO_4}",
    r"\mathrm{MoS_2}",
)  # fmt: skip
_RELATIONS = ordered(r"= = = < > \leq \geq \approx \sim \neq \in \to \equiv \ll \gg \propto")
_SPACES = ordered(
    r"\mathbb{R} \mathbb{R}^n \mathbb{C} \mathbb{Z} \mathbb{N} \mathbb{R}^d \mathbb{Q} \mathcal{H} "
    r"\Omega [0,1] (0,T)"
)
_NORMED = ordered(r"L^2 L^p L^\infty H^1 H^1_0 C^\infty C^0 W^{1,p} \ell^2 H^{-1}")
_MARKS = ordered(r"\hat \bar \tilde \dot \vec \mathbf \boldsymbol")
_ALPHABETS = ordered(r"\mathcal \mathbf \mathbb")
_DOMAINS = ordered(r"U U \Omega X \mathbb{R}^n")
_FUNCTIONS = ordered(r"\log \exp \sin \cos \ln \max \min \dim \det")

Rng = np.random.Generator


def inline_formula(rng: Rng) -> str:
    """Write a short formula in LaTeX."""
    weights = np.array([weight for weight, _ in _RULES])
    return _RULES[int(rng.choice(len(_RULES), p=weights / weights.sum()))][1](rng)


def _pick(rng: Rng, choices: list[str] | tuple[str, ...]) -> str:
    return choices[int(rng.integers(len(choices)))]


def _number(rng: Rng) -> str:
    dice = rng.random()
    if dice < 0.45:
        return str(int(rng.integers(0, 100)))
    if dice < 0.8:
        return f"{rng.uniform(0, 100 if rng.random() < 0.3 else 1):.{int(rng.integers(1, 4))}f}"
    return str(int(rng.integers(100, 100000)))


def _symbol(rng: Rng) -> str:
    dice = rng.random()
    if dice < 0.5:
        name = _pick(rng, _LATIN)
    else:
        name = _pick(rng, _CAPITALS) if dice < 0.72 else _pick(rng, _GREEK)
    dice = rng.random()
    if dice < 0.10:
        return f"{_pick(rng, _MARKS)}{{{name}}}"
    if dice < 0.16:
        return f"{_pick(rng, _ALPHABETS)}{{{_pick(rng, _CAPITALS)}}}"
    return name


def _indexed(rng: Rng) -> str:
    base = _symbol(rng)
    dice = rng.random()
    index = _pick(
        rng, [_pick(rng, _LATIN), str(int(rng.integers(0, 10))), _pick(rng, ["ij", "n+1", "n-1", "i,j", "k-1", "0"])]
    )
    if dice < 0.45:
        return f"{base}_{{{index}}}"
    if dice < 0.62:
        power = _pick(rng, ["2", "2", "3", "n", "-1", r"\ast", r"\prime", "T", r"\dagger", "(k)", "+", "-"])
        return f"{base}^{{{power}}}"
    if dice < 0.72:
        return f"{base}_{{{index}}}^{{{_pick(rng, ['2', 'n', '*', '(1)', 'k'])}}}"
    if dice < 0.78:
        word = _pick(rng, ["max", "min", "eff", "in", "out", "tot", "ref", "c", "d", "obs", "crit"])
        return rf"{base}_{{\mathrm{{{word}}}}}"
    return base


def _term(rng: Rng) -> str:
    dice = rng.random()
    if dice < 0.6:
        return _indexed(rng)
    if dice < 0.75:
        return f"{_number(rng)}{_indexed(rng)}"
    if dice < 0.9:
        return f"{_symbol(rng)}({_pick(rng, [_indexed(rng), _indexed(rng) + ',' + _indexed(rng)])})"
    return rf"{_pick(rng, _FUNCTIONS)} {_indexed(rng)}"


def _sum(rng: Rng) -> str:
    out = _term(rng)
    while rng.random() < 0.35:
        out += _pick(rng, ["+", "-", "-", "+", r"\cdot ", r"\times ", "/"]) + _term(rng)
    return out


def _relation(rng: Rng) -> str:
    right = _number(rng) if rng.random() < 0.4 else _sum(rng)
    return f"{_indexed(rng)}{_pick(rng, _RELATIONS)} {right}"


def _quantity(rng: Rng) -> str:
    unit = _pick(rng, _UNITS)
    body = rf"\mathrm{{{unit}}}" if "\\" not in unit else rf"\mu\mathrm{{{unit.split(' ')[1]}}}"
    if rng.random() < 0.35:
        body += f"^{{{_pick(rng, ['2', '3', '-1', '-2', '-3'])}}}"
    if rng.random() < 0.25:
        body += rf"\,\mathrm{{{_pick(rng, ('m', 's', 'g', 'K', 'L', 'h'))}}}^{{-{int(rng.integers(1, 4))}}}"
    return body if rng.random() < 0.3 else rf"{_number(rng)}\,{body}"


def _degrees(rng: Rng) -> str:
    return rf"{_number(rng)}^{{\circ}}" + (r"\mathrm{C}" if rng.random() < 0.5 else "")


def _power_of_ten(rng: Rng) -> str:
    sign = "-" if rng.random() < 0.5 else ""
    lead = rf"{_number(rng)}\times " if rng.random() < 0.6 else ""
    return rf"{lead}10^{{{sign}{int(rng.integers(1, 25))}}}"


def _uncertain(rng: Rng) -> str:
    return rf"{_number(rng)}\pm {_number(rng)}" + (r"\%" if rng.random() < 0.2 else "")


def _statistic(rng: Rng) -> str:
    value = f"{rng.uniform(0, 1):.{int(rng.integers(2, 4))}f}"
    return _pick(
        rng,
        [
            f"p<{value}", f"p={value}", f"P<{value}", f"R^2={value}", f"r={value}", rf"\alpha={value}",
            f"n={_number(rng)}",
            rf"\chi^2={_number(rng)}", f"F(1,{int(rng.integers(5, 99))})={_number(rng)}",
            f"t({int(rng.integers(5, 99))})={_number(rng)}",
            rf"\beta={value}", rf"{_number(rng)}\%", f"N={_number(rng)}", rf"\geq {_number(rng)}", rf"<{_number(rng)}",
            rf"\sim {_number(rng)}", rf"\pm {_number(rng)}", rf"\approx {_number(rng)}",
        ],
    )  # fmt: skip


def _membership(rng: Rng) -> str:
    place = _pick(rng, _SPACES) if rng.random() < 0.5 else f"{_pick(rng, _NORMED)}({_pick(rng, _DOMAINS)})"
    return rf"{_indexed(rng)}\in {place}" if rng.random() < 0.7 else place


def _mapping(rng: Rng) -> str:
    return rf"{_symbol(rng)}:{_pick(rng, _SPACES)}\to {_pick(rng, _SPACES)}"


def _listing(rng: Rng) -> str:
    x, n = _symbol(rng), _pick(rng, ["n", "m", "k", "N"])
    body = rf"{x}_1,\ldots,{x}_{n}" if rng.random() < 0.7 else rf"{x}_1,{x}_2,\ldots,{x}_{n}"
    return _pick(
        rng,
        [body, rf"\{{{body}\}}", f"({body})", rf"i=1,\ldots,{n}", rf"\{{{x}_{n}\}}", f"[{_term(rng)},{_term(rng)}]"],
    )


def _asymptotic(rng: Rng) -> str:
    n = _pick(rng, ["n", "N", "m", "k"])
    return _pick(
        rng,
        [
            rf"O({n}\log {n})",
            f"O({n}^2)",
            f"O({n})",
            rf"\mathcal{{O}}({n}^3)",
            rf"{n}\to\infty",
            rf"\Omega({n})",
            rf"o({n}^{{-1}})",
        ],
    )


def _fraction(rng: Rng) -> str:
    return rf"\frac{{{_indexed(rng)}}}{{{_indexed(rng)}}}" if rng.random() < 0.7 else rf"\sqrt{{{_indexed(rng)}}}"


def _chemistry(rng: Rng) -> str:
    return _pick(rng, _CHEMISTRY)


def _big(rng: Rng) -> str:
    operator = _pick(
        rng,
        [
            r"\sum_{i=1}^n",
            r"\int_0^1",
            r"\prod_{k}",
            r"\sum_{i}",
            r"\int_{\Omega}",
            r"\bigcup_{n}",
            r"\lim_{n\to\infty}",
        ],
    )
    return f"{operator} {_term(rng)}" + (rf"\,d{_pick(rng, ['x', 't', 's', 'y'])}" if "int" in operator else "")


def _absolute(rng: Rng) -> str:
    left, right = [("|", "|"), (r"\|", r"\|"), (r"\langle ", r"\rangle ")][int(rng.integers(3))]
    return f"{left}{_sum(rng)}{right}"


_RULES: tuple[tuple[float, Callable[[Rng], str]], ...] = (
    (4.0, _indexed), (4.0, _relation), (1.5, _sum), (1.5, _term), (1.5, _quantity), (0.8, _degrees),
    (1.0, _power_of_ten), (1.2, _uncertain),
    (2.0, _statistic), (2.0, _membership), (0.6, _mapping), (1.2, _listing), (0.5, _asymptotic),
    (0.5, _fraction), (1.3, _chemistry), (0.5, _big), (0.5, _absolute),
)  # fmt: skip
