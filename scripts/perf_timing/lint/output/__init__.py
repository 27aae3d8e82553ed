"""What comes of findings: suppressions, fixes, a baseline, what the reader is told."""
