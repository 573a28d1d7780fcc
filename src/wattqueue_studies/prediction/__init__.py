"""History against regression: paper 4, section 6.3.

``study`` evaluates estimators (``study.evaluation``) on generated jobs and on real rows and compares the errors with
``claims.toml``. docs/prediction-study.md discusses the outcome.
"""
