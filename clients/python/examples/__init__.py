"""Programs that show the use of the client."""
