"""Lines on what an export lacks, a module for each part that tells it."""
