"""The project's own measurements, run from the checkout."""
