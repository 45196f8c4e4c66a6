"""Let these tests run the command line."""

from command_line import cimplan as cimplan
