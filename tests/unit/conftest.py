"""Properties are about values, not about how busy the machine is: no deadlines."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("alnair-unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("alnair-unit")
