"""Reports: findings and traces as text and JSON, one writer a file.

Nothing here runs or checks anything.
"""
