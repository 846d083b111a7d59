"""Regions read by OpenAI-compatible servers."""
