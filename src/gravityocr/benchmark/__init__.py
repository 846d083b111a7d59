"""Measurements of speed and identity, over whatever recognizers are handed in."""
