"""The steps of a training: their programs, the loop over them, and what was not finite.

Public names: `programs.StepPrograms`, `programs.Stage`; `loop.run_steps`; `nonfinite.diagnose`.
"""
