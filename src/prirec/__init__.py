"""PriRec: recommendations of nearby places without collecting anyone's data.

    import prirec

    city = prirec.make_city(people=2000)
    fit = prirec.fit(city, prirec.settings("private"))
    fit.recommend("u0007", k=5)

Names are loaded when they are first used (PEP 562): `import prirec` itself loads nothing but this file, so that a
program which only records a visit on a device does not wait for the compiler of the training loops.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Account": "prirec.privacy.ledger",
    "City": "prirec.api.cities",
    "Comparison": "prirec.api.comparisons",
    "Device": "prirec.device.device",
    "Fit": "prirec.api.fits",
    "FolderCheck": "prirec.data.check",
    "Forecast": "prirec.simulate.forecast",
    "History": "prirec.api.fits",
    "IterationReport": "prirec.engines.state",
    "PrivacyPlan": "prirec.simulate.privacy_plan",
    "Quality": "prirec.metrics",
    "Recommender": "prirec.recommender.recommender",
    "Settings": "prirec.config",
    "Suggestion": "prirec.protocols.prediction",
    "Suggestions": "prirec.api.fits",
    "Training": "prirec.api.fits",
    "check_folder": "prirec.api.cities",
    "compare": "prirec.api.comparisons",
    "fit": "prirec.api.fits",
    "forecast": "prirec.api.plans",
    "load": "prirec.api.fits",
    "make_city": "prirec.api.cities",
    "plan": "prirec.api.plans",
    "read_folder": "prirec.api.cities",
    "read_ledger": "prirec.api.plans",
    "settings": "prirec.config",
}

__all__ = [  # noqa: RUF022  # in the order of the reference: data, settings, results, deployments
    "City",
    "read_folder",
    "check_folder",
    "FolderCheck",
    "make_city",
    "settings",
    "Settings",
    "fit",
    "load",
    "Training",
    "Fit",
    "Quality",
    "History",
    "IterationReport",
    "Suggestions",
    "Suggestion",
    "compare",
    "Comparison",
    "plan",
    "PrivacyPlan",
    "forecast",
    "Forecast",
    "read_ledger",
    "Account",
    "Device",
    "Recommender",
    "errors",
    "__version__",
]

if TYPE_CHECKING:  # what type checkers and editors see
    from prirec import errors
    from prirec.api.cities import City, check_folder, make_city, read_folder
    from prirec.api.comparisons import Comparison, compare
    from prirec.api.fits import Fit, History, Suggestions, Training, fit, load
    from prirec.api.plans import forecast, plan, read_ledger
    from prirec.config import Settings, settings
    from prirec.data.check import FolderCheck
    from prirec.device.device import Device
    from prirec.engines.state import IterationReport
    from prirec.metrics import Quality
    from prirec.privacy.ledger import Account
    from prirec.protocols.prediction import Suggestion
    from prirec.recommender.recommender import Recommender
    from prirec.simulate.forecast import Forecast
    from prirec.simulate.privacy_plan import PrivacyPlan


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("prirec.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'prirec' has no attribute '{name}'")
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found  # so that this function is not asked again
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
