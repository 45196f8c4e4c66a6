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
    and the cut after, in pieces if need be. They come in groups; of a group, one more thing may be kept: how long
    its first results take outside the host. (Typically the heads of a network beside its main chain.)
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
(``to_option``), -1 where there is no such cut. It is a list of points (crossbars, time, host_time, lead). The claim:
for each choice of options of the block's operators (with these options of start and end) and each schedule of them
there is a point that is not larger in any of its four numbers than

- the crossbars that the block's operators take, the end cut included, the start cut not;
- the ticks from the finish of the start cut (from 0 if there is none) to the finish of the end cut (to the finish of
  the last operator if there is none);
- the host's time spent on the block's operators, the end cut included, the start cut not;
- the ticks from the finish of the start cut until the first of the block's operators that occupies the host
  (host-placed, duration > 0) starts; if there is none, the block's time.

Schedules of a block obey: dependencies among the block's operators and from its start cut, transfers included; the
single host for the block's own host-placed operators; the end starts when all others have finished. Dependencies that
leave the block (over a cut, or to dropped operators and fillers) are ignored, which only ever shortens a schedule.
Every pair of options must have an entry, unless ``reason`` is ``"chain"``.

``reason`` says how the claim is verified:

``"chain"``
    The block has no operator but its end (or none at all). ``fronts`` is empty. The only point of a pair of options
    is known without a table: crossbars and duration of the end's option; time = duration, plus the transfer of the
    dependency from the start cut if there is one and the places differ; host_time = duration if the end is on the
    host, else 0; lead = time - host_time. An empty last block has the point (0, 0, 0, 0).
``"enumeration"``
    The block is small enough to be searched again: enumerate options and host orders with whatever pruning is
    sound, and check that each complete schedule is covered by a point. (A search may be cut off as soon as the
    partial schedule is covered in all four numbers.)
``"load"``
    No search is needed, because each point follows from sums. The points have lead 0; sorted by crossbars they are
    p_1 … p_m, with time and host_time not increasing. For every choice of options that takes fewer crossbars than
    p_{i+1} (any number for the last): the sum of host durations is at least ``host_time`` of p_i, and ``time`` of
    p_i is at most the longer of (a) that least sum and (b) the longest path through the block's operators, from the
    start cut's option to the end cut's option, with the best choice at each operator whatever its crossbars.
    Verified with a knapsack over the operators (a) and a longest path over pairs of operator and option (b).

Waits
-----
``wait(k)`` says how long the spine can keep the host waiting from block k on. A *step* leads from spine operator u to
spine operator w if w depends on u, or if paths lead from u to w and no spine operator lies on any of them (the spine
keeps their order). A step takes the transfer of that dependency if there is one and two options of u and w have
different places, else 0. Let length(v) be how long v and what follows it without the host can take: 0 if each option
of v occupies the host (on the host, duration > 0); else the longest duration of the others, plus the greatest, over
steps from v to w, of the step plus length(w). ``wait(k)`` is the greatest, over spine operators v of the blocks k,
k + 1, …, of length(v) plus the greatest step to v, 0 without one; and 0 without such operators.

A filler that occupies the host for d ticks, d > wait(k), k being its release, delays the spine by d - wait(k) or more:
let every operator off the host start as soon as the spine operators before it allow. What runs elsewhere when the
filler starts, or follows that without the host, has been made possible by host operators that ended before, so it
lies after their ends, and after the cut that releases the filler; it has come to its end after wait(k) ticks, and then
nothing happens but the filler. Cut that time out for each such filler: what remains is a schedule of the spine.

Folding
-------
A filler group is *released* by block r, the number of cuts that precede all its operators by a path (these are
``cuts[:r]``), and *due* at block d, the index of the first cut that all its operators precede, or ``len(cuts)`` if
there is none. A label is (option of the last cut, crossbars, t, e, delayed): t is the finish of that cut; e >= t is
the earliest time at which a host that works without a pause can also have done all filler work released so far;
delayed is a set of pairs (ready, work) of filler work that cannot start before its ready time.

Write late(j) for the sum of work over all pairs with ready >= ready_j.

1. Start with (-1, c0, 0, 0, {}), c0 the sum over dropped operators of their fewest crossbars.
2. For block k = 0 … len(cuts):
   a. Every operator of each group released at k chooses an option. Crossbars are added. e grows by the sum of the
      durations of those on the host. If no group of the certificate is marked ``delayed``, t grows by the sum, over
      those on the host, of max(0, duration - wait(k)). If the group is marked ``delayed``: the lead of an operator v
      is the greatest, over its predecessors u in the group, of lead(u) + (0 if u is on the host, else its duration)
      + (transfer if places differ), and of the transfer from ``cuts[k-1]`` if that is a predecessor on another place;
      0 without any. Let W(L) be the sum of host durations of the group's operators with lead >= L. Take the L > 0
      among the leads of host-placed operators with the greatest L * W(L), the smallest such L; if L * W(L) > 0 the
      pair (t + L, W(L)) joins delayed.
   b. Each point (c, T, H, I) of the front of (option of the last cut, option of the end) extends the label:
      crossbars grow by c. Let p be the duration of the end's option, g = p if it is on the host, else 0; p = g = 0
      for the last block. If all groups released at or before k and not yet flushed are due at or before k, and
      there is at least one, the label is *flushed*: pending work must be done before the end starts,
          t' = p + max(t + T - p, e + H - g, max_j ready_j + late(j), max_j min(t + I, ready_j) + H - g + late(j)),
          e' = t', delayed' = {}.
      Otherwise idle host time of the block is filled,
          t' = t + T, e' = max(t', e + H, max_j min(t', ready_j) + late(j), max_j min(t + I, ready_j) + H + late(j)),
          delayed' = the pairs with ready_j > t'.
3. The value is the least e of a label with at most ``budget`` crossbars.

Why this is a relaxation: let t_r be when the cut really finishes and w_r the filler work that is then left. By
induction t <= t_r and e <= t_r + w_r for the label that follows the covering points: host work of the block and
pending work share the host (e + H); late work and the block's host work both lie after the earlier of ready_j and
t + I; late work lies after ready_j. Where t has grown by what long fillers delay, t <= t_r + w_r instead, and
t <= t_r at a flush: fillers that are done have delayed the spine, and those that are left are in w_r with at least as
much.

A label may be dropped if another one with the same last option is not larger in crossbars, t, e, and in the ready
times and works of delayed, pair by pair.

Searching
---------
If ``exhausted`` is false, the value of the fold must be at least ``lower_bound``. If it is true, the value may be
smaller, and a search closed the difference. It looked at schedules of the spine and of the ``searched`` operators
(fillers, among them all that have more than one option, do not run on the host, or take crossbars: such a filler is
never pooled, as its crossbars would be charged twice), which are scheduled one by one: choices, dependencies among them
(also over cuts), transfers, the host to themselves; and each comes after all of them from which a path leads to it,
without a transfer where the path leads through fillers that are not searched. The remaining fillers are a pool of host
work that runs in pieces while the host is idle. Work of such an operator is there when its last searched ancestor has
settled (on the host: has run; elsewhere: when all searched operators before it have settled), or if it has none, from
the finish of ``cuts[r-1]`` on, r being the release of its group. All work that has been released is done before the end
of a flushed block starts, and all work before the schedule ends. The claim: no such schedule within the budget ends
before ``lower_bound``. Any exhaustive search may verify it; the rest of the fold from a cut on is a bound to prune
with, and so is what long fillers delay. A search that schedules more operators one by one may verify the bound as well:
it looks at fewer schedules that only the relaxation allows.

Steps
-----
If ``steps`` is not empty, the same tables bound the makespan for several budgets: for each step (budget, bound), no
schedule within that many crossbars ends before that bound. The last one is ``(budget, lower_bound)`` itself. Budgets
rise from step to step and bounds fall. All that is said above then holds with the bound of a step for its budget: of
a schedule that takes c crossbars, the claim is that it does not end before the bound of the first step whose budget is
c or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Reason = Literal["chain", "enumeration", "load"]


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """Least use of a block: whatever the block does, some point is not larger in any of its four numbers.

    Attributes
    ----------
    crossbars : int
        Crossbars of the block's operators.
    time : int
        Ticks from the finish of the start cut to the finish of the end cut.
    host_time : int
        Ticks of the host spent on the block's operators.
    lead : int
        Ticks from the finish of the start cut until the block first occupies the host.
    """

    crossbars: int
    time: int
    host_time: int
    lead: int


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


@dataclass(frozen=True, slots=True)
class FillerGroup:
    """Operators beside the spine of which the host work is kept.

    Attributes
    ----------
    operators : tuple of int
        Sorted.
    delayed : bool
        Whether the time that their first results take outside the host is kept too.
    """

    operators: tuple[int, ...]
    delayed: bool


@dataclass(frozen=True, slots=True)
class Step:
    """A bound for one budget.

    Attributes
    ----------
    budget : int
        Crossbars.
    bound : int
        Ticks that no schedule within them can beat.
    """

    budget: int
    bound: int


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
    fillers : tuple of FillerGroup
        Operators of which only the host work is kept, in disjoint groups.
    dropped : tuple of int
        Operators left out; sorted.
    exhausted : bool
        Whether the fold alone falls short of the bound and a search closed the difference.
    searched : tuple of int
        Fillers that this search scheduled one by one; sorted.
    steps : tuple of Step
        What is claimed for each budget; empty if it is for one budget.
    """

    lower_bound: int
    budget: int
    cuts: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    fillers: tuple[FillerGroup, ...] = ()
    dropped: tuple[int, ...] = ()
    exhausted: bool = False
    searched: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()
