"""Simulation on one machine: set-up, release of popularity, saved runs, recommendations."""
