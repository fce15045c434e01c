"""The Swagger page at /docs; it works without a network, and has a dark mode."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse

__all__ = ["add_docs"]

_STATIC = "/static-offline-docs"  # where fastapi-offline serves Swagger's files
# Swagger has no dark mode: invert its colours, and rotate the hues back.
_DARK = """<style>
@media (prefers-color-scheme: dark) {
  html { color-scheme: dark; background: #17181c; }
  .swagger-ui { filter: invert(0.9) hue-rotate(180deg); }
  .swagger-ui .microlight, .swagger-ui .highlight-code > pre {
    filter: invert(1) hue-rotate(180deg);
  }
}
</style>
</head>"""


def add_docs(app: FastAPI) -> None:
    """Adds the page to a `FastAPIOffline` application made with `docs_url=None`."""

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        root = request.scope.get("root_path", "")
        page = get_swagger_ui_html(
            openapi_url=f"{root}{app.openapi_url}",
            title=f"{app.title}: requests and answers",
            swagger_js_url=f"{root}{_STATIC}/swagger-ui-bundle.js",
            swagger_css_url=f"{root}{_STATIC}/swagger-ui.css",
            swagger_favicon_url="favicon.svg",
        )
        return HTMLResponse(bytes(page.body).decode().replace("</head>", _DARK))
