"""LaTeX inside read text as the characters that it prints, so that it can be compared with a text layer."""

from __future__ import annotations

import re

_NAMES = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "vartheta": "ϑ", "iota": "ι", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π",
    "rho": "ρ", "sigma": "σ", "varsigma": "ς", "tau": "τ", "upsilon": "υ", "phi": "φ", "varphi": "φ", "chi": "χ",
    "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ", "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π",
    "Sigma": "Σ", "Upsilon": "Υ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "times": "×", "cdot": "·", "div": "÷",
    "pm": "±", "mp": "∓", "leq": "≤", "le": "≤", "geq": "≥", "ge": "≥", "neq": "≠", "ne": "≠", "approx": "≈",
    "sim": "∼", "equiv": "≡", "propto": "∝", "infty": "∞", "partial": "∂", "nabla": "∇", "sum": "∑", "prod": "∏",
    "int": "∫", "in": "∈", "notin": "∉", "subset": "⊂", "subseteq": "⊆", "cup": "∪", "cap": "∩", "forall": "∀",
    "exists": "∃", "to": "→", "rightarrow": "→", "leftarrow": "←", "Rightarrow": "⇒", "Leftrightarrow": "⇔",
    "circ": "∘", "degree": "°", "prime": "'", "ldots": "...", "dots": "...", "cdots": "⋯", "langle": "⟨",
    "rangle": "⟩", "ell": "ℓ", "hbar": "ℏ", "dagger": "†", "ddagger": "‡", "S": "§", "P": "¶", "ll": "≪", "gg": "≫",
    "otimes": "⊗", "oplus": "⊕", "mid": "|", "ast": "*", "star": "⋆", "perp": "⊥", "parallel": "∥", "emptyset": "∅",
}  # fmt: skip
_PRINTED = frozenset({"sin", "cos", "tan", "log", "ln", "exp", "min", "max", "lim", "det", "arg", "sup", "inf", "Pr"})
_DELIMITER = re.compile(r"\\[()\[\]]|\$")
_ENVIRONMENT = re.compile(r"\\(?:begin|end)\s*\{[A-Za-z*]+\}(?:\{[lcr|]*\})?")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_ESCAPED = re.compile(r"\\([^A-Za-z\s])")
_SPACING = ",;:!> "


def plain_math(text: str) -> str:
    r"""Return a text with the names of symbols as the symbols and other commands dropped; braces and $ are no text.

    >>> plain_math(r"a $ \alpha_{1} \leq \mathrm{max} $ of 5\%")
    'a  α_1 ≤ max  of 5%'
    """
    if "\\" not in text and "$" not in text:
        return text
    text = _ENVIRONMENT.sub(" ", _DELIMITER.sub("", text))
    text = _COMMAND.sub(lambda found: _NAMES.get(found[1], found[1] if found[1] in _PRINTED else ""), text)
    text = _ESCAPED.sub(lambda found: "" if found[1] in _SPACING else found[1], text)
    return text.replace("{", "").replace("}", "")
