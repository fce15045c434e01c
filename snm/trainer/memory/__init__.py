"""The memory of a run: tried at its end, kept where it pays, or taken over from another run.

Public names: `plan.MemoryPlan`; `trial.find_memory`, `trial.memory_split`; `stored.memory_of`;
`files.try_memory`; `inherited.inherit_memory`; `notes.why_no_memory`.
"""
