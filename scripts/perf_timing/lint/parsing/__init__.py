"""Code as ast-grep can read it: what is blanked or rewritten before, and the run itself."""
