"""What people read: tables of answers, the budget, the privacy statement."""
