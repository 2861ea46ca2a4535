"""Structured log: one JSON object a line on standard output. A request's text is part of it only if the setting
`log_text` is on, and an API key never is."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, TextIO

from kestrel.service.record import RequestRecord

_request_log = logging.getLogger("kestrel.request")
_QUIET = ("/livez", "/readyz", "/metrics")


class JsonFormatter(logging.Formatter):
    """Time, level, logger and message, then the fields of `extra={"fields": {...}}`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=True)


def configure(level: str, stream: TextIO = sys.stdout) -> None:
    """Sends the logs of this product and of the web server to `stream`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kestrel").setLevel(level.upper())


def log_request(record: RequestRecord) -> None:
    """One line for a request; probes and scrapes only at debug level."""
    level = logging.DEBUG if record.endpoint in _QUIET else logging.INFO
    _request_log.log(level, "request", extra={"fields": record.as_log()})
