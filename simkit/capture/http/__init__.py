"""Interception: requests of the pipeline's code are answered, forwarded or refused."""
