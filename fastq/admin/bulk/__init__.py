"""Change jobs for an operator: single ones at once, many by an operation of the leader's; and the record of who changed what."""

from fastq.admin.bulk.audits import AuditRow
from fastq.admin.bulk.operations import OperationRow, Preview

__all__ = ["AuditRow", "OperationRow", "Preview"]
