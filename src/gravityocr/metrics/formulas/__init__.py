"""What CDM is made of: tokens of LaTeX, renders by TeX, the boxes of tokens and their matching."""
