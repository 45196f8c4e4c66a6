"""How long what follows an operator takes at least, by way of the graph."""

from __future__ import annotations

from collections.abc import Sequence

from cimplan.partition.players import Players


class Tails:
    """Ways from the operators of a search to the end.

    Attributes
    ----------
    within : dict of int to list of list of int
        Per spine operator, option of its block's end, and own option: the least ticks until that end starts.
    whole : dict of int to list of int
        Per operator and option: the least ticks from its start to the end of all that follow it.
    """

    def __init__(self, players: Players) -> None:
        self.players, self.options = players, players.options
        self.spine = players.tables.spine
        self.within = self._within()
        self.whole = self._whole()

    def _within(self) -> dict[int, list[list[int]]]:
        tails: dict[int, list[list[int]]] = {}
        block_of = self.players.block_of
        for v in reversed(self.players.operators):
            if v not in block_of:
                continue
            end = self.spine.end(block_of[v])
            inside = [(w, delay) for w, delay in self.players.outputs[v] if block_of.get(w) == block_of[v]]
            tails[v] = []
            for b in range(1 if end is None else len(self.options[end])):
                row = []
                for option in self.options[v]:
                    least = 0
                    for w, delay in inside:
                        if w == end:
                            then = delay if self.options[w][b].place != option.place else 0
                        else:
                            then = self._least_after(option.place, delay, w, tails[w][b])
                        least = max(least, then)
                    row.append(0 if v == end else option.duration + least)
                tails[v].append(row)
        return tails

    def _whole(self) -> dict[int, list[int]]:
        tails: dict[int, list[int]] = {}
        for v in reversed(self.players.operators):
            tails[v] = [
                option.duration
                + max(
                    (self._least_after(option.place, delay, w, tails[w]) for w, delay in self.players.outputs[v]),
                    default=0,
                )
                for option in self.options[v]
            ]
        return tails

    def _least_after(self, place: str, delay: int, w: int, tails: Sequence[int]) -> int:
        return min(
            tail + (delay if other.place != place else 0) for tail, other in zip(tails, self.options[w], strict=True)
        )
