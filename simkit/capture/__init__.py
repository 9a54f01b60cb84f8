"""What is sent over HTTP, intercepted, recorded and replayed."""
