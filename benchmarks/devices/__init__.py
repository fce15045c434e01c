"""What do steps cost on many devices, and on accelerators that are not there?"""
