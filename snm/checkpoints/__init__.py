"""Checkpoints of a run, written in the background and verified when read.

This is the only package that imports orbax. Public names: `store.Checkpoints`,
`store.SavingError`; `manifest.Note`, `manifest.DamagedError`; `writer.writer_for`, `writer.Writer`;
`in_memory.BestState`.
"""
