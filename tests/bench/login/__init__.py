"""Programs that run on the cluster's login node, as its user. Standard library only."""
