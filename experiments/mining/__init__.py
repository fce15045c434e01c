"""Does mining beat negative sampling, and with which B, k', loss and rows?"""
