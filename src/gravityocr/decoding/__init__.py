"""Decoders over one step protocol: autoregressive, self-speculation, direct block diffusion."""

from gravityocr.decoding.autoregressive import decode_autoregressive
from gravityocr.decoding.diffusion import decode_diffusion
from gravityocr.decoding.request import Decoded, Finish, Request, SequenceOptions, Slots
from gravityocr.decoding.sampling import Sampling
from gravityocr.decoding.speculative import Speculation, decode_speculative
from gravityocr.decoding.trace import RoundTrace, trace_html

__all__ = [
    "Decoded",
    "Finish",
    "Request",
    "RoundTrace",
    "Sampling",
    "SequenceOptions",
    "Slots",
    "Speculation",
    "decode_autoregressive",
    "decode_diffusion",
    "decode_speculative",
    "trace_html",
]
