"""`snm bench`: times each part of a training step against the machine's limits and other packages.

Public names: `parts.PARTS`, `shapes.SHAPES`, `shapes.Shape`, `contest.Contest`, `contest.held`,
`rates.MachineRates`.
"""
