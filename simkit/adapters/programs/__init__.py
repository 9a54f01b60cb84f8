"""Pipelines that are programs: started beside simkit, only served, or typed into."""
