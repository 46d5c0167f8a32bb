"""The curator as a place: people come over the network with a token, and never touch data or ledger."""
