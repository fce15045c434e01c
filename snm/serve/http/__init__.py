"""HTTP around the service: the application and its pages, the middleware, and the server.

Public names: `app.make_app`, `server.make_server`.
"""
