"""Where inputs come from and how they become page images."""
