"""Devices and processes: mesh, collectives, launchers, each process's part of the data."""
