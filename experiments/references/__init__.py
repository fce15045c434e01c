"""The systems of the paper's Table 3, reimplemented in plain NumPy and SciPy, to run on our data.

Public names, by module:

- `protocol`: `Reference`: what they share: `fit(X, Y)` and `predict(X, k)`.
- `dismec`, `leml`, `sleec`, `pfastrexml` (and FastXML), `pd_sparse`, `ppd_sparse`: the systems;
  each says what is faithful and what is not.
- `table`: `REFERENCES`: name -> reference; `PEERS`: the same for `snm compare --peers`.

`python -m experiments.references DATA ... --out FILE` measures them.
"""

from experiments.references.table import PEERS, REFERENCES

__all__ = ["PEERS", "REFERENCES"]
