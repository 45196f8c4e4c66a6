"""Segmentation and allocation for chips whose arrays compute or store."""
