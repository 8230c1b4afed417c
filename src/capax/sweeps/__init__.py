"""Many runs: from a study file to a store full of them, through any fault."""
