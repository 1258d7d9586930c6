"""Neighbours and their weights S_if, and the places near a person."""
