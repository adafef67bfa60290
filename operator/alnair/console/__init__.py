"""The HTTP side: metrics, and who may read them; readiness. Read-only: nothing here changes anything."""
