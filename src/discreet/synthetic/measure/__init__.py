"""What is counted with noise: marginals, chosen ones, fine counts; and what they cost together."""
