"""Settings of the property tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine is slow, and that is no fault of the code: no time limit for one example.
settings.register_profile("unit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unit")
