"""Hooks that come with fastq, for tools that watch programs: traces and measurements of OpenTelemetry, Sentry."""
