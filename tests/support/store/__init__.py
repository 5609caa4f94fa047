"""Databases of a test's own, and rows written as the services that own them would write them."""
