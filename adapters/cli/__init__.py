"""The command line, one module per group of commands. It needs the extra `cli` (typer, rich).

Exit codes: 0 done; 1 something failed, was not found, or a line was bad; 2 wrong usage, or a package is missing;
130 after Ctrl-C, 143 after SIGTERM, both with what was under way finished.
"""
