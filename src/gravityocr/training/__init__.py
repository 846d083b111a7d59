"""Joint training of the drafter and the verifier."""
