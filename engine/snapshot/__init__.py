"""The code that tasks run is a copy of the repository as it was when they were asked for (`[deck] snapshot`)."""
