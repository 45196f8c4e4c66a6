"""Functional and timing replay of programs."""
