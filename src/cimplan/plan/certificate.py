"""Proofs of lower bounds, in a form that can be verified without the solver that found them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Certificate:
    """Placeholder of the certificate's structure; defined by the exact method's certificate design."""
