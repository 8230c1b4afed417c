"""Facts of the user's: read from files, put into tokens, learned and counted."""
