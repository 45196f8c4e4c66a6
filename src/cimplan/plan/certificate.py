"""Proofs of lower bounds, in a form that can be verified without the solver that found them.

A certificate describes a *relaxation* of the partition problem that is easy to solve exactly. Whoever verifies it
checks that it is a relaxation (by reachability alone), that the tables of its blocks are complete (by a search of
their own), and folds the tables together; the result must not be smaller than the claimed lower bound. All numbers
are exact integers in ticks of the problem; a certificate is only issued for problems with one host core.

The network is cut in three:

``dropped``
    Operators that are left out altogether, with every constraint on them. Only the fewest crossbars that each could
    take are still charged to the budget. (Typically nodes fed by constants only.)
``fillers``
    Operators of which only the *host work* is kept: the host must spend their time somewhere between the cut before
    and the cut after, in pieces if need be; their transfers and their order are left out. (Typically the heads of a
    network beside its main chain.)
the spine
    Everything else. ``cuts`` names spine operators such that each is comparable, by a path in the complete graph,
    with every other *spine* operator; they are in topological order. Block ``k`` consists of the spine operators
    strictly between ``cuts[k-1]`` and ``cuts[k]``, and of ``cuts[k]`` itself: its *end*. Block 0 has no start cut,
    the last block (number ``len(cuts)``) no end cut; either may be empty of operators.

Because a cut is comparable with everything in the spine, all spine operators before it have finished when it starts,
and those after it start when it has finished: blocks follow one another in time.

Tables
------
A front of block ``k`` belongs to one option of its start cut (``from_option``) and one of its end cut
(``to_option``), -1 where there is no such cut. It is a list of points (crossbars, time, host_time). The claim:
for each choice of options of the block's operators (with these options of start and end) and each schedule of them
there is a point that is not larger in any of its three numbers than

- the crossbars that the block's operators take, the end cut included, the start cut not;
- the ticks from the finish of the start cut (from 0 if there is none) to the finish of the end cut (to the finish of
  the last operator if there is none);
- the host's time spent on the block's operators, the end cut included, the start cut not.

Schedules of a block obey: dependencies among the block's operators and from its start cut, transfers included; the
single host for the block's own host-placed operators. Dependencies that leave the block (over a cut, or to dropped
operators and fillers) are ignored, which only ever shortens a schedule. Pairs of options without an entry in
``fronts`` are claimed to be useless: not allowed; every pair must have an entry, unless ``reason`` is ``"chain"``.

``reason`` says how the claim is verified:

``"chain"``
    The block has no operator but its end (or none at all). ``fronts`` is empty. The only point of a pair of options
    is known without a table: crossbars and duration of the end's option; time = duration, plus the transfer of the
    dependency from the start cut if there is one and the places differ; host_time = duration if the end is on the
    host, else 0. An empty last block has the point (0, 0, 0).
``"enumeration"``
    The block is small enough to be searched again: enumerate options and host orders with whatever pruning is
    sound, and check that each complete schedule is covered by a point. (A search may be cut off as soon as the
    partial schedule is covered in all three numbers.)
``"load"``
    No search is needed, because each point follows from sums. Let the point list, sorted by crossbars, be p_1…p_m.
    For every set of choices with fewer crossbars than p_{i+1}: the sum of host durations is at least
    ``host_time`` of p_i, and time >= ``time`` of p_i because of the longer of (a) the least sum of host durations
    and (b) the least length of a longest path through the block's operators under the best options, both of the
    block within those crossbars. Verified with a knapsack over the operators (a), and over longest paths with the
    shortest option at each operator, ignoring crossbars (b).

Folding
-------
A filler is *released* by block r, the number of cuts that precede it by a path (these are ``cuts[:r]``), and *due*
at block d, the index of the first cut that it precedes, or ``len(cuts)`` if it precedes none. A label is
(option of the last cut, crossbars, t, w): t is the finish of that cut, w the host work of fillers still pending.

1. Start with (-1, c0, 0, 0), c0 the sum over dropped operators of their fewest crossbars.
2. For block k = 0 … len(cuts):
   a. every filler released at k chooses an option: crossbars are added, w grows by the duration if it is on the host;
   b. each point (c, T, H) of the front of (option of the last cut, option of the end) extends the label:
      crossbars grow by c. Let p be the duration of the end's option, g = p if it is on the host, else 0; p = g = 0
      for the last block.
      If all fillers released at or before k are due at or before k (and there are any pending, w > 0 or not):
      t grows by p + max(T - p, w + H - g), and w becomes 0: pending work must be done before the end starts.
      Otherwise t grows by T, and w becomes max(0, w - (T - H)): idle host time of the block is filled.
3. The value is the least t + w of a label with at most ``budget`` crossbars.

Labels of the same last option that are not smaller in any of crossbars, t, w than another one may be dropped.
(Stretching a block to fill it with more pending work gains nothing: it adds to t what it takes from w.)

If ``exhausted`` is false, the value must be at least ``lower_bound``. If it is true, the value may be smaller; the
difference was closed by a search: no schedule of the whole problem without the dropped operators ends before
``lower_bound``. The fold then serves as the pruning bound of the search that verifies it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal["chain", "enumeration", "load"]


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """Least use of a block: nothing the block can do is smaller in all three numbers at once than some point.

    Attributes
    ----------
    crossbars : int
        Crossbars of the block's operators.
    time : int
        Ticks from the finish of the start cut to the finish of the end cut.
    host_time : int
        Ticks of the host spent on the block's operators.
    """

    crossbars: int
    time: int
    host_time: int


@dataclass(frozen=True, slots=True)
class Front:
    """All points of a block for one pair of boundary options.

    Attributes
    ----------
    from_option : int
        Index of the start cut's option; -1 if the block has no start cut.
    to_option : int
        Index of the end cut's option; -1 if the block has no end cut.
    points : tuple of Point
        Sorted.
    """

    from_option: int
    to_option: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """The spine operators after one cut, up to and including the next.

    Attributes
    ----------
    reason : {"chain", "enumeration", "load"}
        How to verify the fronts; see the module.
    fronts : tuple of Front
        One for each pair of options of the boundary cuts; empty for a chain.
    """

    reason: Reason
    fronts: tuple[Front, ...] = ()


@dataclass(frozen=True)
class Certificate:
    """A relaxation whose value bounds the makespan from below; the module says how to verify it.

    Attributes
    ----------
    lower_bound : int
        Ticks that no schedule within the budget can beat.
    budget : int
        Crossbars for which the bound holds.
    cuts : tuple of int
        Spine operators comparable with all other spine operators, in topological order.
    blocks : tuple of Block
        ``len(cuts) + 1`` blocks.
    fillers : tuple of int
        Operators of which only the host work is kept; sorted.
    dropped : tuple of int
        Operators left out; sorted.
    exhausted : bool
        Whether the fold alone falls short of the bound and a search closed the difference.
    """

    lower_bound: int
    budget: int
    cuts: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    fillers: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    exhausted: bool = False
