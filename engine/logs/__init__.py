"""Reading what tasks wrote: tails, failures, progress. Pure parsers over bytes and text."""
