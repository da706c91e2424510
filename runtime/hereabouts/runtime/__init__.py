"""What every Hereabouts process shares: settings, key ring, tokens, logs, spans, supervised life."""
