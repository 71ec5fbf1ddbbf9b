"""What keys do: the table of actions, what they ask, how they are answered."""
