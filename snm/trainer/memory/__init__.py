"""The memory of a run: chosen at its end if it pays, or inherited from another run.

Public names: `plan.MemoryPlan`; `trial.MemorySplit`, `trial.split_for_memory`,
`trial.choose_memory`; `stored.make_memory`; `inherited.inherit_memory`; `notes.why_no_memory`.
"""
