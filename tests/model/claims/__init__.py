"""The model check of claims: lease, epoch, owner's and writer's token, late evidence, on the shipped storage code."""
