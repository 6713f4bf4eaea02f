"""version.py -- the version of rf-tools, of which this package is a part.

A build of the package reads it without importing the package.
"""
VERSION = "0.2"
