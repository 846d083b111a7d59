"""Plain text, tables and formulas as Markdown, and nothing in them that Markdown would act on by accident."""

from __future__ import annotations

import re

from gravityocr.pipeline.passages.safe_markup import TABLE_START, safe_latex

DROPPED = frozenset({"header", "footer", "page_number", "logo"})
"""Labels that stay in the JSON and out of the Markdown."""

_BULLET = re.compile(r"^\s*[•●▪◦‣∙·*+\-–]\s+(?=\S)|^\s*[•●▪◦‣]\s*(?=\S)")
_NUMBER = re.compile(r"^\s*(\(?\d{1,3}[.)])\s+(?=\S)|^\s*(\d{1,2}\))(?=[^\W\d])")
_MATH_MARK = re.compile(r"[\\^_{}=]")
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}")
_MATH_NAME = re.compile(r"\\[A-Za-z]+|\\(?:text|mathrm|operatorname)\s*\{[^}]*\}")
_AMOUNT = re.compile(r"\d[\d.,]*\s*[,;.]?")
_BACKSLASH = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_TAG_OR_ENTITY = re.compile(r"<(?=[A-Za-z/!?])|&(?=#?\w+;)")
_STAR = re.compile(r"(?<=\S)\*|\*(?=\S)")
_UNDERSCORE = re.compile(r"(?<![^\W_])_+(?=\S)|(?<=\S)_+(?![^\W_])")
_TILDES = re.compile(r"~(?=~)")
_LINE_MARK = re.compile(r"^(#{1,6}(?=\s|$)|>|[*+-](?=\s|$)|(?:-{2,}|={2,}|_{3,})(?=\s*$)|~{3,})")
_LINE_NUMBER = re.compile(r"^(\d{1,9})([.)])(?=\s)")


def comment(text: str) -> str:
    """Return text on one line that cannot end the HTML comment around it."""
    return re.sub("-(?=-)", "- ", " ".join(text.split()).replace(">", ""))


def text_block(content: str) -> str:
    """Return lines of text as paragraphs, list items kept together as a list."""
    out: list[str] = []
    was_item = False
    for line in content.split("\n"):
        line = line.strip()
        if not line:
            continue
        item = _list_item(line)
        if out:
            out.append("\n" if item and was_item else "\n\n")
        out.append(item or escape(line))
        was_item = item is not None
    return "".join(out)


def _list_item(line: str) -> str | None:
    bullet = _BULLET.match(line)
    if bullet:
        return f"- {escape(line[bullet.end() :])}"
    number = _NUMBER.match(line)
    if number and not line.startswith("("):
        return f"{number.group(1) or number.group(2)} {escape(line[number.end() :])}"
    return None


def is_table(content: str) -> bool:
    """Tell whether a text is the HTML of a table."""
    return TABLE_START.match(content.lstrip()) is not None


def table_block(content: str) -> str:
    """Return recognised HTML as it is, without the blank lines that would end an HTML block; else as text."""
    lines = [line for line in content.strip().split("\n") if line.strip()]
    html = "\n".join(lines)
    return html if is_table(html) else text_block(content)


def formula_body(content: str) -> str:
    """Return LaTeX without whatever delimiters it came with and without blank lines."""
    body = content.strip()
    for opening, closing in (("$$", "$$"), (r"\[", r"\]"), (r"\(", r"\)"), ("$", "$")):
        if len(body) >= len(opening) + len(closing) and body.startswith(opening) and body.endswith(closing):
            body = body[len(opening) : len(body) - len(closing)].strip()
            break
    return "\n".join(line.rstrip() for line in body.split("\n") if line.strip())


def formula_block(content: str, *, safe: bool = True) -> str:
    """Return LaTeX as a display formula; several that came in one answer become one below the other.

    With `safe`, nothing in it is taken for HTML, or ends the display early.
    """
    bodies = [formula_body(part) for part in re.split(r"\$\$\s*\$\$", formula_body(content))]
    bodies = [safe_latex(body) for body in bodies] if safe else bodies
    return "\n\n".join(f"$$\n{body}\n$$" for body in bodies if body)


def fenced(code: str) -> str:
    """Return lines of code as a fenced block, its fence longer than any in the code."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{code.strip(chr(10))}\n{fence}"


def escape(line: str, *, at_line_start: bool = True) -> str:
    """Escape what Markdown would act on in a line of plain text; formulas in `$` and `$$` stay, tight.

    Marks that act at the beginning of a line only are left alone where it is not `at_line_start`, as in a heading.
    """
    out: list[str] = []
    for mark, piece in _math_pieces(line):
        out.append(f"{mark}{safe_latex(piece.strip())}{mark}" if mark else _escape_plain(piece))
    text = "".join(out)
    if not at_line_start:
        return text
    text = _LINE_NUMBER.sub(r"\1\\\2", text) if not out or not line.startswith("$") else text
    return _LINE_MARK.sub(lambda match: "\\" + match.group(0), text)


def _escape_plain(text: str) -> str:
    text = _BACKSLASH.sub(r"\\\\", text)
    text = _TAG_OR_ENTITY.sub(lambda match: "\\" + match.group(0), text)
    text = _STAR.sub(r"\\*", text)
    text = _UNDERSCORE.sub(lambda match: match.group(0).replace("_", "\\_"), text)
    text = _links(text)
    text = _TILDES.sub(r"\\~", text)
    return text.replace("`", "\\`").replace("$", "\\$")


def _links(text: str) -> str:
    """Escape each opening bracket of what would be a link, or where its address is told."""
    pieces = text.split("]")
    for place, after in enumerate(pieces[1:]):
        if after.startswith(("(", ":")):
            before, line_end, line = pieces[place].rpartition("\n")
            pieces[place] = before + line_end + line.replace("[", "\\[")
    return "]".join(pieces)


def _math_pieces(line: str) -> list[tuple[str, str]]:
    """Part a line into plain text and the insides of its formulas, each with its `$` or `$$`, plain text with none."""
    pieces: list[tuple[str, str]] = []
    position = plain = 0
    while (start := line.find("$", position)) >= 0:
        mark = "$$" if line.startswith("$$", start) else "$"
        inside = start + len(mark)
        end = line.find(mark, inside)
        if end >= 0 and is_math(line[inside:end], line[end + len(mark) : end + len(mark) + 1]):
            pieces += [("", line[plain:start]), (mark, line[inside:end])]
            position = plain = end + len(mark)
        else:
            position = inside
    return [*pieces, ("", line[plain:])]


def is_math(inner: str, after: str) -> bool:
    """Tell the inside of a formula from the text between two amounts of money, as in `$5 and $6`."""
    body = inner.strip()
    if not body or after.isdigit() or inner[0].isspace() != inner[-1].isspace():
        return False
    if _MATH_MARK.search(body):
        return not (body[0].isdigit() and _WORD.search(_MATH_NAME.sub("", body)) and "\\" not in body)
    if _WORD.search(body):
        return False
    return not (inner[0].isspace() and _AMOUNT.fullmatch(body) and body[-1] in ",;.")
