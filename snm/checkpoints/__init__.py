"""Checkpoints of a run, written in the background and verified when read.

No other package imports orbax. Public names: `store.Checkpoints`,
`store.SavingError`; `manifest.Manifest`, `manifest.DamagedError`; `writer.make_writer`,
`writer.Writer`; `in_memory.BestState`.
"""
