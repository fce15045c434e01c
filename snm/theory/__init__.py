"""What the theory says about a loss, a data set or a run: evaluated in float64.

Results of four papers, each function with its theorem or equation:

* `retrieval`, `calibration`, `constants`, `generalization`, `complexity`, `variance`: Reddi, Kale,
  Yu, Holtmann-Rice, Chen, Kumar (2019), Stochastic Negative Mining.
* `ranking`, `ranking_fit`: Tewari and Chaudhuri (2015), does the length of document lists matter?
* `listwise`: Lan, Liu, Ma, Li (2009), listwise learning to rank.
* `auc`, `rank_matrices`: Agarwal, Har-Peled, Roth (2005), the area under the ROC curve.

Where a printed formula does not follow from its own proof, the docstring says what was evaluated
instead and why, and a test decides.
"""
