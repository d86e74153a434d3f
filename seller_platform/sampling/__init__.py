"""Comparisons at random: how many stored slices differ from the upstream at most.

- `assets`: the asset and the schedule that compare each hour
- `capability`: what this folder contributes
- `checks`: the check that comparisons agree
- `commands`: the option of `sync` that compares once
- `comparing`: compares what was drawn, within a share of the requests
- `draws`: slices drawn at random, and the bound that follows from their comparisons
- `problems`: what is wrong
- `tables`: where it is stored
"""
