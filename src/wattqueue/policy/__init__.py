"""Policies: a policy is eight parts; policies.toml holds the published ones; ``decide`` applies one to a snapshot."""
