"""Answers of a trained model: blocks of points, their top-k labels, probabilities and thresholds.

Public names: `predictor.Predictor`, and its fields, `fitted_model.FittedModel`; `candidates`, to
choose answers among some labels only; `calibration` and `thresholds`, chosen on held-out points;
`concordant_pairs`, for the AUC; `programs`, cached by model; `answer_lines`, answers in files;
`inputs`, the forms of points.
"""
