"""`snm serve`: predictions over HTTP.

Public names: `app.make_app`, `service.PredictionService`, `engine.Engine`.
"""
