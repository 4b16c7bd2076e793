"""What `make bench` runs: it measures, as ratios within one run. Nothing here passes or fails.

Every pair that is compared is measured in turns, so that both see the same machine, and a ratio is
the median of those of the turns.
"""
