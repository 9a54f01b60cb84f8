"""Between the pipeline's code and the world: what is answered, and what is refused."""
