"""`SNMClassifier`, an estimator in the manner of scikit-learn.

Public name: `classifier.SNMClassifier`.
"""
