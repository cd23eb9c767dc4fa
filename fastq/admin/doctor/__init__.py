"""Your doctor: checks of a database and of this environment, their findings and the lines to type. It changes nothing.

Values, and functions of the caller's thread, which open sessions of their own and close them; nothing is kept.
"""

from fastq.admin.doctor.checks import LEVELS, Check, Finding
from fastq.admin.doctor.examine import CHECKS, Examination, examine

__all__ = ["CHECKS", "LEVELS", "Check", "Examination", "Finding", "examine"]
