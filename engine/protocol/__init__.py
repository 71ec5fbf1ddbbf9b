"""What the engine tells its observers and clients."""
