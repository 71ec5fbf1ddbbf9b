"""The journal: a SQLite file of facts, its versions, its damages."""
