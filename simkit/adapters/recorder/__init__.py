"""The recorder of pipelines that are code: a driver's observations become events."""
