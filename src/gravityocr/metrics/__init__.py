"""Scores of recognised text against the truth; this package never imports torch."""
