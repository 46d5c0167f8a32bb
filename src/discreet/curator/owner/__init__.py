"""What the owner does beside the gate: draft and edit a policy, compare it with the real rows."""
