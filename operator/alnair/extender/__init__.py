"""kube-scheduler's extender: for clusters that keep their own scheduler and let Alnair choose the cards.

kube-scheduler asks over HTTP, pod by pod: which of these nodes will do (`filter`), how good each is (`prioritize`),
whether a preemption would help (`preempt`); and then leaves it to us to `bind`. `questions` answers the first three
from the same books and rules that gangs are placed by, `binding` gives the fourth to the same ledger, `wire` is what
is said, `server` who may say it. One pod at a time: there are no gangs here.
"""
