"""A policy is seven parts; policies.toml holds the published rows; decide(view) gives actions."""
