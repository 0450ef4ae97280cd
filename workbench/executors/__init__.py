"""Running programs: one engine behind every executor, in sub-packages along the way of a step.

    api -> running: feeding -> planning -> lowering (on replicas, for workers) -> fetching

`inspection` and `profiling` look in from above; `reference` is the program run op by op, the definition of correct.
"""
