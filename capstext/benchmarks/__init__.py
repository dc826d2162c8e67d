"""Measurements: functions that return rows; the command line prints them."""
