"""HTTP routes, one file a concern."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from kestrel.service.routes import catalog, health, jobs, metrics, openai, stream, tts

ROUTERS: tuple[APIRouter, ...] = (
    tts.router,
    openai.router,
    stream.router,
    jobs.router,
    catalog.router,
    health.router,
    metrics.router,
)

TAGS: list[dict[str, Any]] = [
    {"name": "speech", "description": "Text in, audio out."},
    {"name": "jobs", "description": "Long texts, spoken in the background and kept on disk."},
    {"name": "catalog", "description": "What this server can speak with, and its limits."},
    {"name": "operations", "description": "Probes and metrics."},
]
