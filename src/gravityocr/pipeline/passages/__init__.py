"""From regions to the passages of a document."""
