"""Evaluation: leak checks, bootstrap intervals, plots, the HTML report."""
