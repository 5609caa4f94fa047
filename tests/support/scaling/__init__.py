"""Jobs that a real Auto Scaler scales: of a bounded speed, and fed at a rate that changes."""
