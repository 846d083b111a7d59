"""The LaTeX commands of the normal form of formulas, each of them one token of the small model."""

# fmt: off
LATEX_TOKENS: tuple[str, ...] = (
    "\\frac ", "\\mathrm ", "\\mathbf ", "\\right)", "\\left(", "\\partial ", "\\\\ ", "\\alpha ", "\\sum ", "\\cdot ",
    "\\prime ", "\\theta ", "\\pi ", "\\mu ", "\\sqrt ", "\\begin{array}", "\\end{array}", "\\lambda ", "\\in ",
    "\\sigma ", "\\beta ", "\\int ", "\\infty ", "\\omega ", "\\rho ", "\\left[", "\\right]", "\\phi ", "\\times ",
    "\\gamma ", "\\hat ", "\\Delta ", "\\{", "\\mathcal ", "\\}", "\\sin ", "\\delta ", "\\rangle ", "\\cos ",
    "\\operatorname*", "\\mathbb ", "\\cdots ", "\\psi ", "\\nu ", "\\boldsymbol ", "\\quad ", "\\|", "\\tau ",
    "\\varepsilon ", "\\nabla ", "\\ldots ", "\\varphi ", "\\vec ", "\\langle ", "\\log ", "\\bar ", "\\epsilon ",
    "\\leq ", "\\Gamma ", "\\rightarrow ", "\\ln ", "\\Omega ", "\\dot ", "\\qquad ", "\\Phi ", "\\xi ", "\\eta ",
    "\\overline ", "\\left\\{", "\\otimes ", "\\approx ", "\\ell ", "\\hbar ", "\\Psi ", "\\exp ", "\\tilde ",
    "\\equiv ", "\\left|", "\\right|", "\\forall ", "\\chi ", "\\zeta ", "\\Sigma ", "\\wedge ", "\\mathfrak ",
    "\\pm ", "\\circ ", "\\geq ", "\\kappa ", "\\vdots ", "\\right\\}", "\\prod ", "\\big ", "\\right.", "\\widehat ",
    "\\cap ", "\\Big ", "\\dagger ", "\\Lambda ", "\\mapsto ", "\\sim ", "\\neq ", "\\oplus ", "\\tan ",
    "\\subseteq ", "\\Rightarrow ", "\\uparrow ", "\\neg ", "\\cup ", "\\right\\rangle ", "\\subset ", "\\exists ",
    "\\bigg ", "\\Pi ", "\\pmod ", "\\Theta ", "\\ddots ", "\\left\\langle ", "\\cosh ", "\\vdash ", "\\sinh ",
    "\\left.", "\\setminus ", "\\cong ", "\\propto ", "\\ddot ", "\\binom ", "\\vee ", "\\leftarrow ",
    "\\underbrace ", "\\star ", "\\xrightarrow ", "\\mathsf ", "\\underline ", "\\lfloor ", "\\rfloor ", "\\bigcup ",
    "\\cot ", "\\oint ", "\\ll ", "\\Bigg ", "\\arctan ", "\\underset ", "\\overset ", "\\perp ", "\\left\\lfloor ",
    "\\right\\rfloor ", "\\leftrightarrow ", "\\bmod ", "\\top ", "\\sec ", "\\simeq ", "\\Leftrightarrow ", "\\dim ",
    "\\longrightarrow ", "\\angle ", "\\emptyset ", "\\bullet ", "\\downarrow ", "\\vartheta ", "\\aleph ",
    "\\overrightarrow ", "\\supset ", "\\deg ", "\\bigcap ", "\\widetilde ", "\\iint ", "\\right\\|", "\\Re ",
    "\\lceil ", "\\models ", "\\varrho ", "\\left\\|", "\\rceil ", "\\#", "\\arg ", "\\nwarrow ", "\\bigoplus ",
    "\\bot ", "\\notin ", "\\gg ", "\\tanh ", "\\varnothing ", "\\arcsin ", "\\lim ", "\\max ", "\\min ", "\\det ",
    "\\sup ", "\\inf ", "\\gcd ", "\\limsup ", "\\liminf ", "\\Pr ", "\\ker ", "\\hom ", "\\lg ", "\\coth ",
    "\\arccos ", "\\csc ", "\\left\\lceil ", "\\right\\rceil ", "\\left\\rangle ", "\\right\\langle ", "\\mathscr ",
    "\\mathtt ", "\\check ", "\\breve ", "\\mathring ", "\\acute ", "\\grave ", "\\dddot ", "\\overbrace ",
    "\\overleftarrow ", "\\boxed ", "\\varpi ", "\\varsigma ", "\\iota ", "\\upsilon ", "\\Upsilon ", "\\Xi ",
    "\\varkappa ", "\\lrcorner ", "\\leqslant ", "\\geqslant ", "\\prec ", "\\succ ", "\\preceq ", "\\succeq ",
    "\\lesssim ", "\\gtrsim ", "\\sqsubseteq ", "\\subsetneq ", "\\supseteq ", "\\nsubseteq ", "\\Longrightarrow ",
    "\\Longleftrightarrow ", "\\longleftarrow ", "\\longmapsto ", "\\Leftarrow ", "\\Uparrow ", "\\Downarrow ",
    "\\updownarrow ", "\\hookrightarrow ", "\\nearrow ", "\\searrow ", "\\rightharpoonup ", "\\rightleftharpoons ",
    "\\xleftarrow ", "\\mp ", "\\div ", "\\odot ", "\\ominus ", "\\bigotimes ", "\\bigsqcup ", "\\bigvee ",
    "\\bigwedge ", "\\coprod ", "\\iiint ", "\\sqcup ", "\\sqcap ", "\\uplus ", "\\amalg ", "\\ltimes ", "\\rtimes ",
    "\\diamond ", "\\triangle ", "\\square ", "\\bigcirc ", "\\triangleq ", "\\doteq ", "\\asymp ", "\\approxeq ",
    "\\smallsetminus ", "\\Im ", "\\wp ", "\\imath ", "\\jmath ", "\\therefore ", "\\because ", "\\nexists ",
    "\\flat ", "\\sharp ", "\\natural ", "\\ddagger ", "\\S ", "\\$", "\\%", "\\&", "\\_", "\\ni ", "\\nmid ",
    "\\nleq ", "\\smile ", "\\frown ", "\\Vdash ", "\\vDash ", "\\dashv ", "\\bowtie ", "\\blacksquare ",
    "\\clubsuit ", "\\spadesuit ", "\\heartsuit ", "\\diamondsuit ", "\\mho ", "\\hslash ", "\\complement ",
    "\\upharpoonright ", "\\circledast ", "\\trianglelefteq ", "\\triangleright ", "\\triangleleft ", "\\lhd ",
    "\\unlhd ", "\\rhd ", "\\left]", "\\right[", "\\mathit ",
)
# fmt: on
r"""Every token of a formula that is no single character, roughly from frequent to rare.

A command that ends in a letter carries the blank that parts it from what follows; so does the row break, because a
bracket right behind it would be read as `\\(` or as its argument.
"""

# fmt: off
MERGED_LATEX_TOKENS: tuple[str, ...] = (
    "_{", "^{", "}}", "}{", "}}{", "\\begin{array}{", "\\frac {", "\\mathrm {", "\\mathbf {", "\\sqrt {", "\\hat {",
    "\\mathbb {", "\\mathcal {", "\\boldsymbol {", "\\vec {", "\\bar {", "\\overline {", "\\dot {", "\\mathfrak {",
    "\\mathsf {", "\\tilde {", "\\mathscr {", "\\widehat {", "\\ddot {", "\\breve {", "\\widetilde {", "\\mathring {",
    "\\check {", "\\binom {", "_{1}", "_{2}", "_{i}", "_{0}", "_{n}", "_{k}", "_{j}", "_{3}", "_{x}", "_{t}", "_{m}",
    "_{p}", "_{a}", "_{s}", "_{y}", "_{B}", "_{r}", "_{A}", "_{c}", "_{b}", "_{\\alpha }", "_{4}", "_{z}", "_{e}",
    "_{L}", "_{q}", "_{f}", "_{N}", "_{\\mu }", "_{R}", "_{l}", "_{X}", "_{T}", "^{2}", "^{\\prime }", "^{n}", "^{3}",
    "^{\\infty }", "^{*}", "^{k}", "^{4}", "^{1}", "^{i}", "^{T}", "^{m}", "^{0}", "^{+}", "^{N}", "^{b}",
    "^{\\alpha }", "^{\\dagger }", "^{5}", "^{j}", "^{p}", "^{\\mu }", "^{x}", "^{\\circ }",
)
# fmt: on
"""Tokens of formulas that often stand together and show one glyph at most: the network writes them as one.

Of the single tokens of a formula two in five leave no ink, and a drafter has to count what it does not see.
"""
