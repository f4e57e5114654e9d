"""Many workers under fire: eight real processes drain one database while they, and the server, are killed."""
