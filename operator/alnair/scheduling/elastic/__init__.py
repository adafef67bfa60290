"""How many members each elastic gang gets: speed-up curves, and the allocators that weigh them against each other.

Pure, as all of scheduling/: what really fits is asked of a `Room` that is passed in. Nothing here knows how long a job
will take, and nothing here decides who goes first: the order of the jobs given is the order of the queue.
"""
