"""Do files and the server withstand what breaks or attacks them, and what do their checks cost?"""
