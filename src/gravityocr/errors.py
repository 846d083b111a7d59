"""Exceptions that the package raises on purpose: each names the input and the remedy."""


class GravityOCRError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(GravityOCRError):
    """A file, image or document that cannot be read."""


class ConfigError(GravityOCRError):
    """A configuration value that is unknown, of the wrong type or out of range."""


class CheckpointError(GravityOCRError):
    """A checkpoint directory that is incomplete or inconsistent."""


class CapacityError(GravityOCRError):
    """A request that needs more K/V slots than the cache holds."""
