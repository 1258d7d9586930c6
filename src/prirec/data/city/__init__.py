"""The synthetic city: a data set with Koubei's shape that belongs to nobody and can be drawn at any size."""

from prirec.data.city.build import make_city
from prirec.data.city.plan import CityPlan, koubei_size

__all__ = ["CityPlan", "koubei_size", "make_city"]
