"""PriRec: recommendations of nearby places without collecting anyone's data."""

__version__ = "0.1.0"
