"""Synthetic English text crops with exact truth and the position of every character."""
