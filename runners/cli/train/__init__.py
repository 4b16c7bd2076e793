"""Commands of the heading Train: launch, plan, recipes, data."""
