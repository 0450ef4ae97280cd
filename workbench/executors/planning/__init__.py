"""From a graph and the shapes of its feeds to a plan: order, threads, memory. Pure: nothing is bound, nothing runs."""
