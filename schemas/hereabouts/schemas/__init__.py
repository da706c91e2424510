"""Messages, answers, reasons and limits of Hereabouts as pydantic models."""
