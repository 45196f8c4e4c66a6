"""The tables of a store, and what it says of a sweep."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

SCHEMA_VERSION = 1

METADATA = sa.MetaData()
ABOUT = sa.Table(
    "cimplan_about", METADATA, sa.Column("name", sa.String(40), primary_key=True), sa.Column("value", sa.Text)
)
PROFILES = sa.Table(
    "cimplan_profiles",
    METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
POINTS = sa.Table(
    "cimplan_points",
    METADATA,
    sa.Column("key", sa.String(64), primary_key=True),
    sa.Column("status", sa.String(16), nullable=False),
    sa.Column("result", sa.JSON, nullable=False),
    sa.Column("finished", sa.Float, nullable=False),  # seconds since 1970
    # How often a result was handed in; only the first is kept, so more than 1 is work done in vain.
    sa.Column("computed", sa.Integer, nullable=False),
)
SWEEPS = sa.Table(
    "cimplan_sweeps",
    METADATA,
    sa.Column("sweep", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("space", sa.JSON, nullable=False),
    sa.Column("columns", sa.JSON, nullable=False),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("started", sa.Float, nullable=False),
    sa.Column("resumed", sa.Float, nullable=False),
)
MEMBERS = sa.Table(
    "cimplan_members",
    METADATA,
    sa.Column("sweep", sa.String(64), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("key", sa.String(64), nullable=False, index=True),
    sa.Column("design", sa.JSON, nullable=False),
)


@dataclass(frozen=True)
class SweepStatus:
    """How far a sweep of a store is.

    Attributes
    ----------
    sweep, name : str
        Identity and name.
    total : int
        Points it is to have.
    counts : dict of str to int
        Finished points by status.
    started, resumed, last_activity : float or None
        Seconds since 1970: first start, last start, and when a point was last finished.
    since_resumed : int
        Points finished since the last start.
    running : bool
        Whether a process is computing it just now.
    computed_again : int
        Points that were computed although they were stored already, by two sweeps at the same time.
    columns : list of (str, str)
        Names and types of the columns of its table.
    """

    sweep: str
    name: str
    total: int
    counts: dict[str, int]
    started: float
    resumed: float
    last_activity: float | None
    since_resumed: int
    running: bool
    computed_again: int
    columns: list[tuple[str, str]]

    @property
    def done(self) -> int:
        """Points finished."""
        return sum(self.counts.values())

    @property
    def rate_per_s(self) -> float | None:
        """Points a second since the last start; None before the second point."""
        if self.last_activity is None or self.since_resumed < 2 or self.last_activity <= self.resumed:
            return None
        return self.since_resumed / (self.last_activity - self.resumed)

    @property
    def remaining_s(self) -> float | None:
        """Seconds left at this rate; None unless it is running."""
        return (self.total - self.done) / self.rate_per_s if self.running and self.rate_per_s else None
