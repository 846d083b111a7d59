"""Run decoding over many crops on one machine."""
