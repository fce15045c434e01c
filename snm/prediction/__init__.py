"""Answers of a trained model: blocks of points, their best labels, probabilities and thresholds.

Public names: `predictor.Predictor`; `candidates`, to answer from some labels only;
`calibration` and `thresholds`, chosen on held-out points; `pair_counts`, for the AUC;
`programs`, which are kept by model; `digits`, how answers are written; `inputs`, what points may be
given as.
"""
