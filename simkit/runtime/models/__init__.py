"""Who answers a model call."""
