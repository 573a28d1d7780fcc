"""Policies: a policy is seven parts; policies.toml holds the published ones; ``decide`` applies one to a snapshot."""
