"""What gates of implementations have in common: cases, their ranks, verdicts, and what was expected of them."""
