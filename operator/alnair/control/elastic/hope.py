"""Who is worth a closer look: everything else about sizing costs a search for each gang and each try.

Thousands of elastic gangs are mostly alike, and most of the time none of them can change. So one search answers for all
whose members no rule can tell apart, and only a few gangs, those that gain most, are decided on together: the others
have their turn when these have had theirs. Nothing may wait in here: it scribbles on the books.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from alnair.api.nearness import BadLevel
from alnair.control.asking import Asker, Question, sample
from alnair.control.elastic import sizing as words
from alnair.control.elastic.members import Sized, take_out
from alnair.control.gangs import Gang
from alnair.control.profiles import Profiles
from alnair.control.promises import Promises
from alnair.ledger.records import Member
from alnair.scheduling import search
from alnair.state.cluster import ClusterState
from alnair.state.draft import Draft
from alnair.state.shapes import PodClass

MOST_TOGETHER = 16  # gangs whose sizes are decided on together
MOST_ASKED = 16  # searches in one go
MOST_AGAIN = 8  # and so many more, for those that there was hope for


class Hope:
    def __init__(self, *, state: ClusterState, asker: Asker, profiles: Profiles, promises: Promises) -> None:
        self._state = state
        self._asker = asker
        self._profiles = profiles
        self._promises = promises

    def to_grow(self, able: Sequence[tuple[Sized, int]]) -> list[tuple[Sized, int]]:
        """Those of which one more member finds a place, by what it is worth. The others are told why not."""
        found: list[tuple[Sized, int]] = []
        known: dict[Hashable, str] = {}
        with self._state.draft() as draft:
            self._promises.keep(draft)
            for each, ceiling in sorted(able, key=lambda one: -one[0].loss(one[0].size + 1)):
                if each.loss(each.size + 1) <= 0:
                    each.sizing.say(
                        words.NO_GAIN, "more members would not make it faster, as far as is known"
                    )
                elif len(found) == MOST_TOGETHER:
                    each.sizing.say(words.NO_ROOM, "what is free is worth more to other gangs")
                elif why := self._why_no_more(each.gang, draft, known):
                    each.sizing.say(words.NO_ROOM, f"one more member finds no place: {why}")
                else:
                    found.append((each, ceiling))
        return found

    def _why_no_more(self, gang: Gang, draft: Draft, known: dict[Hashable, str]) -> str:
        pod = sample(gang)
        alike = self._alike(gang, [pod], draft)
        key = (alike, gang.priority) if alike is not None else gang.key
        if key not in known:
            if len(known) == MOST_ASKED:
                return "others are looked at first"
            try:
                asked = self._asker.searched_more(gang, pod, 1)
            except BadLevel as error:
                return str(error)
            # How many members the one gang has is not for the others to read.
            asked = replace(asked, present=0) if alike is not None else asked
            known[key] = self._refusal(gang, asked, draft)
        return known[key]

    def to_be_helped(
        self, due: Iterable[Gang], leavers: Sequence[tuple[Sized, Member]], *, again: Callable[[Gang], bool]
    ) -> dict[Gang, Question | None]:
        """The question of each that would fit if all of these left, None for who would not; the rest was not come to.
        `due`: in the order in which they wait. `again`: whether there was hope for it before. These have searches of
        their own: neither they nor those whose turn it is use up the others'."""
        found: dict[Gang, Question | None] = {}
        known: dict[Hashable, str] = {}
        left = {True: MOST_AGAIN, False: MOST_ASKED}  # searches
        with self._state.draft() as draft:
            for _, member in leavers:
                take_out(member, self._state, draft)
            for gang in due:
                question = self._asker.ask(gang)
                if not isinstance(question, Question) or question.whole:
                    found[gang] = None
                    continue
                pods = question.waiting[: question.missing] if gang.elastic is not None else question.waiting
                alike = self._alike(gang, [gang.kind(pod) for pod in pods], draft)
                key = (alike, gang.priority, question.missing) if alike is not None else gang.key
                if key not in known:
                    if not left[again(gang)]:
                        continue
                    left[again(gang)] -= 1
                    # Who is alike and behind it has no more room: the same is promised to others, or more.
                    asked = self._asker.searched(gang, question, pods)
                    known[key] = self._refusal(gang, asked, draft, promised=True)
                found[gang] = None if known[key] else question
        return found

    def _refusal(self, gang: Gang, asked: search.Gang, draft: Draft, *, promised: bool = False) -> str:
        """`promised`: what was promised to those before this gang is taken."""
        mark = len(draft.journal)
        if promised:
            self._promises.keep(draft, gang)
        verdict = search.place(asked, self._profiles[gang.scheduler], draft)
        draft.wipe(keep=mark)
        return "" if isinstance(verdict, search.Plan) else verdict.message

    def _alike(self, gang: Gang, pods: Sequence[PodClass], draft: Draft) -> Hashable:
        """What tells the question for this gang from others'; None if that is more than shapes."""
        profile = self._profiles[gang.scheduler]
        if gang.wish is not None or any(
            rule.concerns(pod, draft)
            for pod in {pod.shape: pod for pod in pods}.values()
            for rule in profile.wide_filters
        ):
            return None
        return profile.name, tuple(pod.shape for pod in pods)


def worth_exchanging(able: Sequence[tuple[Sized, int]], spare: Sequence[tuple[Sized, int]]) -> list[Sized]:
    """The gangs that gain most by one member more, of those with a ceiling, and those that lose least by one less, of
    those with a floor below what they have. Empty if there are not both."""
    few = MOST_TOGETHER // 4
    gainers = sorted((each for each, _ in able), key=lambda one: -one.loss(one.size + 1))[:few]
    losers = sorted((each for each, _ in spare), key=lambda one: one.loss(one.size))[:few]
    if not gainers or not losers:
        return []
    return list(dict.fromkeys([*gainers, *losers]))
