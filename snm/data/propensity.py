"""The parameters of the propensity model that most data sets have."""

__all__ = ["PROPENSITY"]

PROPENSITY = (0.55, 1.5)
"""A and B of the model of Jain et al. (2016): the Extreme Classification Repository uses others for
its Wikipedia and Amazon data sets only."""
