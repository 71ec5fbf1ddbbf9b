"""A client's side: the deck that a command is about, its engine found, started and asked."""
