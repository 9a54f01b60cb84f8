"""Live runs: scenarios whose models are really asked, many times, and what the runs show.

From the bottom up: ``estimates`` (rates and their intervals), ``scripted_words`` (claims that only
a script can keep), ``meter`` (tokens, cost and latency of calls), ``trials`` (one run, and the
scenario that replays it).
"""
