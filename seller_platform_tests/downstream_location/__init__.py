"""A code location of somebody else's, which takes Seller Platform's partitions by key alone."""
