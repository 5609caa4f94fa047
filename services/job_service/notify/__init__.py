"""Alerts are sent to webhooks."""
