"""HTTP traffic: interception, recording and replay."""
