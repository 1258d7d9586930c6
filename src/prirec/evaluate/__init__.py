"""Evaluation: leak checks, plots, the HTML report."""
