"""Checkpoints of a run, written in the background and verified when read.

This is the only package that imports orbax. Public names: `store.Checkpoints`, `store.Note`,
`store.DamagedError`, `store.SavingError`; `writer.writer_for`, `writer.Writer`.
"""
