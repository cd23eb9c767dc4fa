"""A name for one holder: leases, who stands for them, and singletons as their function sees them."""
