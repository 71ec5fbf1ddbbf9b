"""Facts become messages: what happened, how the deck stands, what a run came to."""
