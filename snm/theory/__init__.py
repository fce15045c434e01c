"""The theorems of four papers as functions, evaluated in float64.

In the package only `snm bounds` (`snm.bounds.measure`) imports it; experiments and tests use it
too. A function cites the result that it evaluates.

Reddi, Kale, Yu, Holtmann-Rice, Chen, Kumar (2019), Stochastic Negative Mining for Learning with
Large Output Spaces:

- `retrieval`: retrieval risk, the Bayes predictor, margins and the margin risk.
- `calibration`: condition (3) of Theorem 4, and weights theta that satisfy it.
- `calibration_gap`: calibration tested by minimization (Definition 2).
- `constants`: Lipschitz constants and ranges of the losses (Lemma 7), norms of theta.
- `complexity`: Gaussian and Rademacher complexities of linear and two-layer classes on real data.
- `generalization`: the generalization bounds of Theorems 5 and 6.
- `variance`: variance of the sampled loss and of its gradient.

Tewari and Chaudhuri (2015), on the length of document lists in learning to rank:

- `ranking`: Lipschitz and smoothness constants of ranking losses, and the bounds.
- `ranking_fit`: the linear algorithms that the bounds analyse.

Lan, Liu, Ma, Li (2009), generalization of listwise learning to rank:

- `listwise`: factors and bounds.
- `listwise_tables`: Tables 1-3.

Agarwal, Har-Peled, Roth (2005), generalization bounds for the area under the ROC curve:

- `auc`: the empirical AUC and bounds on its deviation.
- `rank_matrices`: counts of bipartite rank matrices, and rank-shatter coefficients.

The public names of each module are in its `__all__`; nothing is re-exported. Where a printed
formula does not follow from its own proof, the docstring states what is evaluated instead and why,
and a test checks it.
"""
