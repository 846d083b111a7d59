"""Commands that cannot outlive the formula they stand in, so that many formulas may share one TeX run.

Source: the symbols, delimiters and accents that LaTeX, amssymb and upgreek declare, and the layout commands of amsmath.
A formula with any other command (`\\def`, `\\input`, `\\loop`, a misspelt name) gets a TeX run of its own.
"""

from __future__ import annotations

import re

from gravityocr.metrics.formulas.latex_pieces import words

_NAMES = words(
    """
    Arrowvert Bbbk Big Bigg Biggl Biggm Biggr Bigl Bigm Bigr Bumpeq Cap Cup Delta Downarrow Finv Game Gamma Im Join
    Lambda Leftarrow Leftrightarrow Lleftarrow Longleftarrow Longleftrightarrow Longrightarrow Lsh Omega P Phi Pi Pr
    Psi Re Rightarrow Rrightarrow Rsh S Sigma Subset Supset Theta Uparrow Updelta Updownarrow Upgamma Uplambda
    Upomega Upphi Uppi Uppsi Upsigma Upsilon Uptheta Upupsilon Upxi Vdash Vert Vvdash Xi acute aleph alpha amalg
    angle approx approxeq array arrowvert ast asymp atop backepsilon backprime backsim backsimeq backslash bar
    barwedge because begin beta beth between bf big bigcap bigcirc bigcup bigg biggl biggm biggr bigl bigm bigodot
    bigoplus bigotimes bigr bigsqcup bigstar bigtriangledown bigtriangleup biguplus bigvee bigwedge binom
    blacklozenge blacksquare blacktriangle blacktriangledown blacktriangleleft blacktriangleright bm bmod boldsymbol
    bot bowtie boxdot boxed boxminus boxplus boxtimes braceld bracelu bracerd braceru bracevert breve bullet bumpeq
    cal cap cdot cdotp cdots centerdot check chi choose circ circeq circlearrowleft circlearrowright circledS
    circledast circledcirc circleddash clubsuit colon complement cong coprod copyright cos cup curlyeqprec
    curlyeqsucc curlyvee curlywedge curvearrowleft curvearrowright dabar dagger daleth dashv ddagger ddddot dddot
    ddot ddots delta det diagdown diagup diamond diamondsuit digamma displaystyle div divideontimes dot doteq
    doteqdot dotplus dots dotsb dotsc dotsi dotsm dotso doublebarwedge downarrow downdownarrows downharpoonleft
    downharpoonright ell emph emptyset end epsilon eqcirc eqsim eqslantgtr eqslantless equiv eta eth exists
    fallingdotseq flat forall frac frown gamma gcd ge geq geqq geqslant gets gg ggg gimel gnapprox gneq gneqq gnsim
    grave gtrapprox gtrdot gtreqless gtreqqless gtrless gtrsim gvertneqq hat hbar heartsuit hline hookleftarrow
    hookrightarrow hphantom hslash hspace iff iiiint iiint iint imath impliedby implies in inf infty injlim int
    intercal intop iota it jmath kappa lVert lambda land langle lbrace lbrack lceil ldotp ldots le left leftarrow
    leftarrowtail leftharpoondown leftharpoonup leftleftarrows leftrightarrow leftrightarrows leftrightharpoons
    leftrightsquigarrow leftthreetimes leq leqq leqslant lessapprox lessdot lesseqgtr lesseqqgtr lessgtr lesssim
    lfloor lgroup lhd lhook lim liminf limits limsup ll lll lmoustache lnapprox lneq lneqq lnot lnsim longleftarrow
    longleftrightarrow longmapsto longrightarrow looparrowleft looparrowright lor lozenge ltimes lvert lvertneqq
    mapsto mapstochar mathbb mathbf mathbin mathcal mathclose mathcolor mathdollar mathfrak mathinner mathit mathop
    mathopen mathord mathparagraph mathpunct mathrel mathring mathrm mathscr mathsection mathsf mathtt measuredangle
    mho mid middle mod models mp mu multimap nLeftarrow nLeftrightarrow nRightarrow nVDash nVdash nabla natural
    ncong ne nearrow neg neq nexists ngeq ngeqq ngeqslant ngtr ni nleftarrow nleftrightarrow nleq nleqq nleqslant
    nless nmid nolimits nonumber not notin nparallel nprec npreceq nrightarrow nshortmid nshortparallel nsim
    nsubseteq nsubseteqq nsucc nsucceq nsupseteq nsupseteqq ntriangleleft ntrianglelefteq ntriangleright
    ntrianglerighteq nu nvDash nvdash nwarrow odot oint ointop omega ominus operatorname oplus oslash otimes over
    overbrace overleftarrow overleftrightarrow overline overrightarrow overset owns parallel partial perp phantom
    phi pi pitchfork pm pmb pmod prec precapprox preccurlyeq preceq precnapprox precneqq precnsim precsim prime prod
    projlim propto psi qquad quad rVert rangle rbrace rbrack rceil rfloor rgroup rhd rho rhook right rightarrow
    rightarrowtail rightharpoondown rightharpoonup rightleftarrows rightleftharpoons rightrightarrows
    rightsquigarrow rightthreetimes risingdotseq rm rmoustache rtimes rvert scriptscriptstyle scriptstyle searrow
    setminus sf sharp shortmid shortparallel sigma sim simeq sin slash smallfrown smallint smallsetminus smallsmile
    smash smile spadesuit sphericalangle sqcap sqcup sqrt sqsubset sqsubseteq sqsupset sqsupseteq square stackrel
    star subset subseteq subseteqq subsetneq subsetneqq substack succ succapprox succcurlyeq succeq succnapprox
    succneqq succnsim succsim sum sup supset supseteq supseteqq supsetneq supsetneqq surd swarrow tan tau text
    textbf textit textmd textnormal textrm textsf textstyle texttt textup therefore theta thickapprox thicksim tilde
    times to top triangle triangledown triangleleft trianglelefteq triangleq triangleright trianglerighteq tt
    twoheadleftarrow twoheadrightarrow underbrace underline underset unlhd unrhd upalpha uparrow upbeta upchi
    updelta updownarrow upepsilon upeta upgamma upharpoonleft upharpoonright upiota upkappa uplambda uplus upmu upnu
    upomega upphi uppi uppsi uprho upsigma upsilon uptau uptheta upuparrows upupsilon upvarepsilon upvarphi upvarpi
    upvartheta upxi upzeta vDash varbigtriangledown varbigtriangleup varepsilon varkappa varnothing varphi varpi
    varpropto varrho varsigma varsubsetneq varsubsetneqq varsupsetneq varsupsetneqq vartheta vartriangle
    vartriangleleft vartriangleright vdash vdots vec vee veebar vert vphantom wedge widehat widetilde wp wr xi
    xleftarrow xrightarrow zeta
    """
)
_COMMAND = re.compile(r"\\([A-Za-z@]+)")
# Other spellings of a command, comments, parameters and switches of mode; environments other than arrays.
_ESCAPE = re.compile(r"\^\^|(?<!\\)[%$#]|\\(?:begin|end)(?!\{array\})")


def is_contained(latex: str) -> bool:
    """Tell whether a formula holds only commands that leave nothing behind.

    >>> is_contained(r"\\frac{a}{b}"), is_contained(r"\\gdef\\a{b}"), is_contained(r"\\end{document}")
    (True, False, False)
    """
    return not _ESCAPE.search(latex) and all(name in _NAMES for name in _COMMAND.findall(latex))
