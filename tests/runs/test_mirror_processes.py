"""Several processes without a common disk, with the run in a store; all such tests are slow."""

import dataclasses
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import tiny
from test_processes import STOPPED, arrays, ended, start, told
