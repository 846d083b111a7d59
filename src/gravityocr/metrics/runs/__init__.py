"""Scoring many samples: data sets, processes, resumable results, intervals and the report."""
