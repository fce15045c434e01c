"""Devices and processes: the mesh, collectives, launchers, and the part of the data that each process needs."""
