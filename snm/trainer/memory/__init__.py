"""The memory of a run: chosen at its end if it pays, or inherited from another run.

Public names: `plan.MemoryPlan`; `trial.choose_memory`, `trial.split_for_memory`;
`stored.make_memory`; `inherited.inherit_memory`; `notes.why_no_memory`.
"""
