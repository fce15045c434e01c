"""What experiments share: named arms, runs that are kept, the command line, tables and plots."""
