"""Markup as the network writes it: whatever it is, it is read."""

from __future__ import annotations

from gravityocr.model.table_markup import read_rows


def test_a_number_without_end_is_no_character() -> None:
    """Python refuses to read numbers of so many digits; a loop of the network can write one."""
    ((cell,),) = read_rows("<tr><td>a&#" + "9" * 5000 + ";b &#65; &#65deadbeef</td></tr>")
    assert cell.text == "a\ufffdb A Adeadbeef"
