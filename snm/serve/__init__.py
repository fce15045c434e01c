"""`snm serve`: predictions over HTTP.

Public names: `http.app.make_app`, `service.PredictionService`, `engine.Engine`.
"""
