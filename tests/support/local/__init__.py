"""Support of the tests of `penstock.local`."""
