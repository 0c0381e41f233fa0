"""Tests, by behaviour: what goes in comes out, and what is bad is named."""
