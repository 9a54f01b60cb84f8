"""Files that users write: scenarios, pipelines, and the checks of both."""
