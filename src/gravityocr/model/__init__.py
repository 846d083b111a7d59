"""The GLM-OCR network: vision tower, decoder, attention visibility, K/V slots, prompts and checkpoints."""
