"""Another team's code location, which reads Seller Platform's partitions by key."""
