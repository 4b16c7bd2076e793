"""From a case to a plan: `solver` takes the decisions one after the other, each from a module."""
