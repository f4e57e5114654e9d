"""The judge: any program behind a small adapter, killed for real, with the effects counted by a service that it cannot reach."""
