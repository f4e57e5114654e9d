"""Random workflows against a plain-Python model: whatever is killed and lost on the way, they come to what ordinary code comes to."""
