"""Many runs under one budget, and what they say: planned, run side by side, tested, reported."""
