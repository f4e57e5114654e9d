"""Real environments to run against: small services that keep receipts. Need the extra `demo`."""
