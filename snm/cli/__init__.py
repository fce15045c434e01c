"""The command line.

`table.VERBS` lists the verbs, `main.main` runs one. Each verb is a dataclass in a file of its own:
here, in the `verb.py` of a package here, or in the `cli.py` of its package.
"""
