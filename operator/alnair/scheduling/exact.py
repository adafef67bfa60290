"""The exact search: where greedy placement is unsure, a solver finds the largest good plan, or proves there is none.

    problem = formulate(gang, profile, draft)      # on the event loop: reads the books
    solution = problem.solve(seconds)              # anywhere: pure arithmetic, gives up the interpreter's lock
    verdict = conclude(solution, profile, draft)   # on the event loop again, against the books as they are by then

`decide` is all three in a row, after the greedy search.

What must never happen here: a solution believed. It is read back into seats and cards and every rule is asked about
it once more; numbers that were rounded wrongly, and books that changed meanwhile, end in `Unsure`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alnair.scheduling import search
from alnair.scheduling.board import Boards
from alnair.scheduling.cards import pick
from alnair.scheduling.classes import Member, MemberClass, classes_of
from alnair.scheduling.domains import domains_of
from alnair.scheduling.explain import ClassShortfall
from alnair.scheduling.model import Dealer, Floats, Model, Rows
from alnair.scheduling.plugins.cards_by_numa import hang_near
from alnair.scheduling.plugins.cards_that_fit import chosen
from alnair.scheduling.plugins.interface import Filter, Linear
from alnair.scheduling.profile import Profile
from alnair.scheduling.pruning import kept_nodes
from alnair.scheduling.search import Gang, PlacedClass, Plan, Refusal, Seat, Unsure
from alnair.state.draft import Bools, Draft, Ints
from alnair.state.holding import ContainerShare, Holding

if TYPE_CHECKING:
    import highspy

SECONDS = 10.0
NO_LIMIT = 1 << 31  # members that nobody has
NEARLY = 1e-6  # how far from a whole number the solver's whole numbers may be


@dataclass(frozen=True, slots=True)
class Problem:
    """A gang in numbers, with nothing of the books left in it. `version` is that of the books it was made from, and
    `filters` are the rules that it was made by."""

    gang: Gang
    filters: Sequence[Filter]
    classes: Sequence[MemberClass]
    names: Sequence[str]  # of the kept nodes
    likely: Bools  # which of them to try first, alone
    seats: Ints
    rows: Rows
    dealer: Dealer | None
    version: int
    parts: Sequence[Bools] | None = (
        None  # of the kept nodes, those of each domain to try: all of it in one of them
    )

    def solve(self, seconds: float = SECONDS) -> Solution:
        """As many members as possible. Touches nothing but its own numbers, so it may run on any thread."""
        if self.parts is not None:
            return self._solved_in_one(seconds, self.parts)
        first = None
        if not self.likely.all():
            # Most gangs that fit at all fit on the best nodes, and then nobody needs to look at the others.
            first = self._solved(seconds / 4, self.likely, None)
            if first.seated.sum() == len(self.gang.members):
                return first
            seconds -= seconds / 4
        return self._solved(seconds, np.ones(len(self.likely), dtype=np.bool_), first)

    def _solved_in_one(self, seconds: float, parts: Sequence[Bools]) -> Solution:
        """Domain by domain, until one holds the gang. Without that, no domain holds more than the largest bound, and
        those that time did not suffice for may hold everybody."""
        best = Solution(self, np.zeros(len(self.rows.upper)), bound=0, seconds=seconds)
        bound, left = 0, seconds
        for number, nodes in enumerate(parts):
            if left <= 0:
                bound = len(self.gang.members)
                break
            rows, variables = self.rows.only(nodes)
            last = number == len(parts) - 1
            # Half of what is left: a domain that is hard to decide must not keep the others from being looked at.
            values, most, spent = _maximised(rows, left if last else left / 2, self._counted()[variables])
            left -= spent
            bound = max(bound, min(most, len(self.gang.members)))
            if values is not None:
                exact = np.zeros(len(self.rows.upper))
                exact[variables] = values
                found = replace(best, exact=exact)
                best = max(best, found, key=lambda each: int(each.seated.sum()))
            if best.fits:
                break
        return replace(best, bound=bound)

    def _solved(self, seconds: float, open_: Bools, start: Solution | None) -> Solution:
        if not len(self.rows.upper):
            return Solution(self, np.zeros(0), bound=0, seconds=seconds)
        upper = self.rows.upper.copy()
        closed = self.seats[:, ~open_]
        upper[closed[closed >= 0]] = 0
        known = start.exact if start is not None else None
        exact, most, _ = _maximised(replace(self.rows, upper=upper), seconds, self._counted(), known)
        members = len(self.gang.members)
        return Solution(self, exact, bound=min(most, members) if open_.all() else members, seconds=seconds)

    def _counted(self) -> Floats:
        """What is to be as large as possible: how many members stand anywhere."""
        placed = np.zeros(len(self.rows.upper))
        placed[self.seats[self.seats >= 0]] = 1.0
        return placed


def _maximised(
    rows: Rows, seconds: float, counted: Floats, known: Floats | None = None
) -> tuple[Floats | None, int, float]:
    """The best values found (`known` are some to start from), what no values exceed, and the seconds that it took."""
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    # One thread: it shares two cores with the apiserver, and the same question must get the same answer.
    for option, value in (("output_flag", False), ("threads", 1), ("time_limit", seconds)):
        solver.setOptionValue(option, value)
    solver.passModel(_program(rows, counted))
    if known is not None:
        start = highspy.HighsSolution()
        start.col_value = known
        solver.setSolution(start)
    solver.run()
    told = solver.getInfo()
    found = None
    if told.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
        found = np.array(solver.getSolution().col_value)
    most = NO_LIMIT
    if np.isfinite(told.mip_dual_bound):
        most = int(np.floor(told.mip_dual_bound + NEARLY))
    return found, most, float(solver.getRunTime())


def _program(rows: Rows, counted: Floats) -> highspy.HighsLp:
    import highspy

    kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(rows.upper), len(rows.most)
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = counted, np.zeros(len(rows.upper)), rows.upper
    lp.row_lower_, lp.row_upper_ = rows.least, rows.most
    lp.integrality_ = [kinds[whole] for whole in rows.integer.tolist()]
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = rows.starts, rows.columns
    lp.a_matrix_.value_ = rows.amounts
    return lp


@dataclass(frozen=True, slots=True)
class Solution:
    """`exact` is the best that was found, as the solver gave it; no plan places more than `bound` members (in the
    domains that were looked at)."""

    problem: Problem
    exact: Floats | None
    bound: int
    seconds: float

    def answers(self, gang: Gang, profile: Profile) -> bool:
        """Whether this is the question that it was asked. What a profile has learned since makes no difference: only
        filters say what fits."""
        return self.problem.gang == gang and self.problem.filters == profile.filters

    @property
    def values(self) -> Ints | None:
        return None if self.exact is None else np.rint(self.exact).astype(np.int64)

    @property
    def seated(self) -> Ints:
        """Classes x kept nodes: how many stand there."""
        seats, values = self.problem.seats, self.values
        if values is None:
            return np.zeros(seats.shape, dtype=np.int64)
        return np.where(seats >= 0, np.append(values, 0)[seats], 0)

    @property
    def fits(self) -> bool:
        return int(self.seated.sum()) >= self.problem.gang.least

    @property
    def impossible(self) -> bool:
        return self.bound < self.problem.gang.least


def decide(
    gang: Gang, profile: Profile, draft: Draft, boards: Boards | None = None, *, seconds: float = SECONDS
) -> Plan | Refusal | Unsure:
    """Greedy, then exact, here and now: for whoever has no event loop to spare. As for the draft, see `place`."""
    verdict = search.place(gang, profile, draft, boards)
    if not isinstance(verdict, Unsure):
        return verdict
    return conclude(formulate(gang, profile, draft).solve(seconds), profile, draft)


def formulate(gang: Gang, profile: Profile, draft: Draft) -> Problem:
    """The gang against the draft as it stands, which has none of its members in it, and is left as it was."""
    mark = len(draft.journal)
    classes = classes_of(gang.members, draft, gang.expected)
    possible = np.ones((len(classes), len(draft.names)), dtype=np.bool_)
    if gang.expected:
        for number, each in enumerate(classes):
            possible[number] = ~search.closed_by_expected(each.pod, gang, profile, draft)
    search.expect(gang, draft)
    for number, each in enumerate(classes):
        possible[number] &= _ever(each, profile, draft)
    domains = None
    if gang.together is not None and gang.together.required:
        domains = domains_of(gang.together, classes, list(possible), draft)
        candidates = domains.holding(gang.least)
        possible &= domains.rows(candidates)
    apart = None if domains is None else domains.of_node
    nodes, likely = kept_nodes(classes, possible, profile, draft, apart=apart)
    model = Model.of(classes, draft, nodes, possible[:, nodes])
    for rule in profile.filters:
        if isinstance(rule, Linear):
            rule.constrain(model)
    problem = Problem(
        gang=gang,
        filters=profile.filters,
        classes=classes,
        names=[draft.names[row] for row in nodes],
        likely=likely,
        seats=model.seats,
        rows=model.finished(),
        dealer=model.dealer,
        version=draft.version,
        parts=None if domains is None else [domains.of_node[nodes] == number for number in candidates],
    )
    draft.wipe(keep=mark)
    return problem


def _ever(each: MemberClass, profile: Profile, draft: Draft) -> Bools:
    """N: where members of the class could stand, if the others were nowhere in their way."""
    mask = draft.exists.copy()
    for rule in profile.filters:
        if rule.concerns(each.pod, draft):
            mask &= (
                rule.possible(each.pod, draft) if isinstance(rule, Linear) else rule.passes(each.pod, draft)
            )
    return mask


def conclude(solution: Solution, profile: Profile, draft: Draft) -> Plan | Refusal | Unsure:
    """What the solution means in the draft, which has none of the gang's members in it.

    After a `Plan` they stand there. A `Refusal` is about the books that the problem was made from: whoever let time
    pass looks whether something came free since `solution.problem.version`.
    """
    gang = solution.problem.gang
    mark = len(draft.journal)
    search.expect(gang, draft)
    placed = read(solution, draft)
    if placed is not None:
        placed = relinked(placed, profile, draft)
    good = placed is not None and _in_one_domain(gang, placed, draft) and stands(placed, profile, draft)
    if placed is None or not good:
        draft.wipe(keep=mark)
        return Unsure(_not_good(draft.version != solution.problem.version))
    if solution.fits:
        return search.plan(placed)
    message = _told(solution, placed, profile, draft)
    draft.wipe(keep=mark)
    if solution.impossible:
        return Refusal(message, search.plan(placed).placements)
    return Unsure(f"Not decided within {solution.seconds:g} s; it is tried again. So far {message}")


def _in_one_domain(gang: Gang, placed: Iterable[PlacedClass], draft: Draft) -> bool:
    """By the labels as they are now: they may have changed since the problem was made."""
    together = gang.together
    if together is None or not together.required:
        return True
    codes = {int(draft.label(together.label)[row]) for each in placed for _, row, _ in each.seats}
    home = {draft.label_column(together.label).code(name) for name in together.home}
    return not codes or (len(codes) == 1 and min(codes) >= 0 and (not home or codes <= home))


def _told(solution: Solution, placed: Sequence[PlacedClass], profile: Profile, draft: Draft) -> str:
    """Why it does not fit, with what does standing in the draft."""
    gang = solution.problem.gang
    short, fit = _short(solution, placed), sum(len(each.seats) for each in placed)
    together = gang.together
    if together is None or not together.required:
        return search.told(gang, short, fit=fit, profile=profile, draft=draft)
    domains = domains_of(together, (), (), draft)
    row = next((row for each in placed for _, row, _ in each.seats), None)
    where = None if row is None else int(domains.of_node[row])
    rows = np.flatnonzero(domains.of_node >= 0 if where is None else domains.rows([where]))
    message = search.told(gang, short, fit=fit, profile=profile, draft=draft.at(rows))
    return search.told_where(gang, together, domains, where, message)


def _not_good(changed: bool) -> str:
    if changed:
        return "The cluster changed while a place was looked for; it is tried again."
    return "The best places that were found break a rule that the exact search cannot reckon with; it is tried again."


def _short(solution: Solution, placed: Iterable[PlacedClass]) -> list[ClassShortfall]:
    short = []
    for each, stand in zip(solution.problem.classes, placed, strict=True):
        if missing := len(each.members) - len(stand.seats):
            short.append(ClassShortfall(each.pod, len(each.members), missing))
    return short


def read(solution: Solution, draft: Draft) -> list[PlacedClass] | None:
    """Who stands where with which cards; None if a node is gone by now. Nothing is taken."""
    problem = solution.problem
    rows = {name: row for row, name in enumerate(draft.names) if name}
    seated = solution.seated
    dealt: Mapping[tuple[int, int], Sequence[tuple[ContainerShare, ...]]] = {}
    if problem.dealer is not None and (values := solution.values) is not None:
        dealt = problem.dealer.deal(values, seated)
    placed = []
    for number, each in enumerate(problem.classes):
        seats: list[Seat] = []
        waiting = list(each.members)
        for node in np.flatnonzero(seated[number]).tolist():
            name = problem.names[node]
            if name not in rows:
                return None
            count = int(seated[number, node])
            for position in range(count):
                member = _next(waiting, name)
                parts = dealt[number, node][position] if each.pod.shape.gpu.demands else ()
                seats.append((member, rows[name], Holding(name, parts)))
        placed.append(PlacedClass(each.pod, tuple(seats)))
    return placed


def relinked(placed: Sequence[PlacedClass], profile: Profile, draft: Draft) -> list[PlacedClass]:
    """The same seats with cards that are nearer: the solver knows how many, not how near to each other, nor to the
    NUMA nodes that the kubelet will choose. On each node where either is told the cards are picked anew, as if by
    greedy placement; where that gets stuck, because the solver's cards fit together and the picker's do not, the
    solver's stay. Nothing is taken."""
    at: dict[int, list[tuple[int, int]]] = {}
    for number, each in enumerate(placed):
        for position, (_, row, _) in enumerate(each.seats):
            if draft.card_links[row] is not None or draft.names[row] in draft.zones.nodes:
                at.setdefault(row, []).append((number, position))
    seats = [list(each.seats) for each in placed]
    mark = len(draft.journal)
    for row, seated in at.items():
        picked: list[Holding] = []
        for number, position in seated:
            pod, holding = placed[number].pod, seats[number][position][2]
            if any(holding.slices()):
                containers = pick(pod, draft, row, profile.picker)
                if containers is None:
                    break
                holding = Holding(draft.names[row], containers)
            draft.take(row, pod, holding.containers)
            picked.append(holding)
        if len(picked) == len(seated):
            for (number, position), holding in zip(seated, picked, strict=True):
                seats[number][position] = (*seats[number][position][:2], holding)
    draft.wipe(keep=mark)
    return [PlacedClass(each.pod, tuple(own)) for each, own in zip(placed, seats, strict=True)]


def _next(waiting: list[Member], node: str) -> Member:
    """Whoever was promised this node, else the first."""
    position = next((index for index, member in enumerate(waiting) if member.nominated == node), 0)
    return waiting.pop(position)


def stands(placed: Sequence[PlacedClass], profile: Profile, draft: Draft) -> bool:
    """Take all these seats in the draft. Whether every rule holds for everybody, no card is given twice, and each is
    near enough, as greedy placement would see it: to a pod that comes after those before it."""
    near = True
    for each in placed:
        for _, row, holding in each.seats:
            near = near and (
                not any(holding.slices()) or hang_near(each.pod.shape, holding.containers, draft.only(row))
            )
            draft.take(row, each.pod, holding.containers)
    return (
        near
        and search.holds(placed, profile.filters, draft)
        and all(_cards_hold(each, row, holding, draft) for each in placed for _, row, holding in each.seats)
    )


def _cards_hold(each: PlacedClass, row: int, holding: Holding, draft: Draft) -> bool:
    """None of the cards that this one holds is lost, of a wrong kind or used beyond what it has."""
    uses = holding.footprint()
    if not uses:
        return True
    usable = (draft.card_usable[row : row + 1] & chosen(each.pod.shape.gpu, draft.only(row)))[0]
    positions = {card: index for index, card in enumerate(draft.card_ids[row])}
    for use in uses:
        card = positions.get(use.card)
        if card is None or not usable[card] or use.clash:
            return False
        free = (draft.card_free_memory, draft.card_free_compute, draft.card_free_slots)
        if min(int(left[row, card]) for left in free) < 0:
            return False
        if draft.card_exclusive[row, card] and draft.card_users[row, card] != use.slots:
            return False  # one that shares with nobody, and not all of the card's users are this pod's
    return True
