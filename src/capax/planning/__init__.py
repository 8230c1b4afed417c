"""Laws turned round: a target in, architectures out."""
