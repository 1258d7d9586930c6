"""Settings for hypothesis where kernels may be compiled, or cities built, inside a test."""

from hypothesis import HealthCheck, settings

PATIENT = settings(suppress_health_check=[HealthCheck.too_slow])
FEW = settings(PATIENT, max_examples=20)
