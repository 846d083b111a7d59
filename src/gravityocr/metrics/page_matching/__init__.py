"""How the Markdown of a page is matched with its ground truth: blocks, texts, formulas, tables."""
