"""`snm serve`: predictions over HTTP.

Public names: `app.make_app`, `answering.Answering`, `engine.Engine`.
"""
