"""The HTTP side: metrics and readiness. Read-only; nothing here changes anything."""
